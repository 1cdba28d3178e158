/*
 * The report's data, and how names and numbers are shown. Everything that comes from the data reaches
 * the page as text, never as markup.
 */
const data = neapUnpack(JSON.parse(document.getElementById('neap-data').textContent));

const $ = id => document.getElementById(id);

/* An element with attributes and children; strings become text. */
function element(tag, attributes, ...children) {
  const made = document.createElement(tag);
  setAttributes(made, attributes);
  made.append(...children.filter(child => child !== null && child !== undefined));
  return made;
}

function svgElement(tag, attributes, ...children) {
  const made = document.createElementNS('http://www.w3.org/2000/svg', tag);
  setAttributes(made, attributes);
  made.append(...children);
  return made;
}

function setAttributes(made, attributes) {
  for (const [name, value] of Object.entries(attributes || {}))
    if (value !== null && value !== undefined && value !== false)
      made.setAttribute(name, value === true ? '' : value);
}

/* ---- Names ---- */

/* Control characters, and characters that change the direction of text or have no width. */
const UNSEEN = new RegExp('[\\u0000-\\u001f\\u007f-\\u009f\\u061c\\u200b-\\u200f\\u2028-\\u202e' +
                          '\\u2060-\\u2069\\ufeff\\ufff9-\\ufffb]', 'g');
const LONGEST_NAME = 56;

const clean = text => String(text).replace(UNSEEN, '') || '(unnamed)';
/* A status as words: "time_limit" is "time limit". */
const statusWords = status => clean(status).replaceAll('_', ' ');

function shorten(text, longest = LONGEST_NAME) {
  const letters = text.length > 4 * longest ? text.slice(0, 2 * longest) + text.slice(-2 * longest) : text;
  const points = Array.from(letters);
  if (points.length <= longest && letters.length === text.length)
    return text;
  const tail = Math.floor(longest / 3);
  return points.slice(0, longest - tail - 1).join('') + '…' + points.slice(-tail).join('');
}

/* A name as an element: isolated, so that its direction does not affect what is around it. */
function nameElement(name, longest) {
  const whole = clean(name), short = shorten(whole, longest);
  return element('bdi', {title: short === whole ? null : whole}, short);
}

const opName = op => shorten(clean(data.ops.name[op]));
const valueName = value => shorten(clean(data.values.name[value]));
const layerName = layer => shorten(clean(data.layers[layer]));

/* ---- Numbers: three significant digits and a unit, as the command prints them ---- */

function scaled(value, unit) {
  const size = Math.abs(value);
  if (size >= 9999.5)
    return Math.round(value).toLocaleString('en-US') + ' ' + unit;
  return value.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + ' ' + unit;
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

function byteUnit(bytes) {
  let unit = 0;
  for (let size = Math.abs(bytes); size >= 1023.5 && unit < 4; size /= 1024)
    unit++;
  return unit;
}

function formatBytes(bytes) {
  const unit = byteUnit(bytes);
  return unit === 0 ? bytes + ' B' : scaled(bytes / 1024 ** unit, BYTE_UNITS[unit]);
}

const exactBytes = bytes => bytes.toLocaleString('en-US') + ' bytes';

function formatTime(seconds) {
  const size = Math.abs(seconds);
  if (size === 0)
    return '0 s';
  if (size >= 0.9995)
    return scaled(seconds, 's');
  return size >= 0.9995e-3 ? scaled(seconds * 1e3, 'ms') : scaled(seconds * 1e6, 'µs');
}

function formatPercent(fraction) {
  const percent = fraction * 100, size = Math.abs(percent);
  return percent.toFixed(size >= 99.95 ? 0 : size >= 9.995 ? 1 : 2) + '%';
}

const formatOverhead = fraction => (fraction < 0 ? '−' : '+') + formatPercent(Math.abs(fraction));
const formatCount = count => count.toLocaleString('en-US');
const plural = (count, word) => formatCount(count) + ' ' + word + (count === 1 ? '' : 's');

function bytesElement(bytes, tag = 'span', attributes = {}) {
  return element(tag, {'data-bytes': bytes, title: exactBytes(bytes), ...attributes},
                 formatBytes(bytes));
}

/* ---- Plans ---- */

const storeAll = data.plans[0];
const KIND_LABELS = {other: 'data and other', state: 'optimizer state'};
const kindName = kind => KIND_LABELS[data.kinds[kind]] || clean(data.kinds[kind]);
const WORKSPACE = data.kinds.indexOf('workspace');
const OTHER = data.kinds.indexOf('other');

const planLabel = plan => plan === storeAll ? 'store all (the ordinary step)'
                                            : shorten(clean(plan.label || plan.method));
