/* The head of the report, the training run, and how to reproduce it. */

/* The result in a sentence. */
function resultSentence(plan) {
  const natural = storeAll.peak_bytes, parts = [];
  if (plan === storeAll)
    return [`One training step takes `, element('strong', {}, formatBytes(natural)), ` and `,
            element('strong', {}, formatTime(plan.time)), ` when every activation is kept.`];
  parts.push('Trains in ', element('strong', {}, formatBytes(plan.peak_bytes)),
             plan.peak_bytes < natural ? ` instead of ${formatBytes(natural)}; a step takes `
                                       : `, and in ${formatBytes(natural)} without a plan; a step takes `);
  const slower = plan.overhead;
  if (Math.abs(slower) < 5e-6)
    parts.push(element('strong', {}, 'no longer'));
  else
    parts.push(element('strong', {}, formatPercent(Math.abs(slower)) + (slower > 0 ? ' longer' : ' less time')));
  parts.push(boundClause(plan) + '.');
  return parts;
}

/* Bounds that hold for some plans only: which. */
const SCOPES = {
  order: 'fixed order',
  frontier: 'fixed order, frontier by frontier',
  passes: 'passes in fixed order',
  once: 'fixed order, only moving activations',
};
const boundsAll = plan => plan.bound_scope === 'any';
const scopeWords = plan => boundsAll(plan) ? 'any order' : SCOPES[plan.bound_scope] || clean(plan.bound_scope);

function boundClause(plan) {
  if (plan.bound_time === null || plan.bound_time === undefined)
    return '';
  const all = boundsAll(plan), bound = `; no plan ${all ? '' : 'of its kind (' + scopeWords(plan) + ') '}in this budget is faster` +
    ` than ${formatTime(plan.bound_time)}`;
  if (plan.gap === null)
    return bound;
  const proven = plan.gap === 0 ? '' : ' (to 0.01%)'; /* as the command says */
  return bound + (plan.gap < 0.5e-4 ? `, so this one is ${all ? 'optimal' : 'the fastest of them'}${proven}`
                                   : `, so this one is within ${formatPercent(plan.gap)} of the fastest${all ? '' : ' of them'}`);
}

function figure(name, value, label, shown, exact, note) {
  return element('div', {}, element('dt', {}, label),
    element('dd', {'data-figure': name, 'data-value': value, title: exact}, shown),
    note ? element('dd', {class: 'note'}, note) : null);
}

function drawFigures(plan) {
  const about = data.about, ofNatural = bytes => `${formatPercent(bytes / storeAll.peak_bytes)} of ${
    formatBytes(storeAll.peak_bytes)}`;
  const bytes = (name, value, label, note) => figure(name, value, label, formatBytes(value),
                                                     exactBytes(value), note);
  const shown = [bytes('peak_bytes', plan.peak_bytes, 'Peak memory',
                       plan === storeAll ? 'without a plan' : ofNatural(plan.peak_bytes))];
  if (plan.budget_bytes)
    shown.push(bytes('budget_bytes', plan.budget_bytes, 'Budget', ofNatural(plan.budget_bytes)));
  shown.push(figure('time', plan.time, 'Step time', formatTime(plan.time), plan.time + ' s',
                    `${formatTime(about.base_time)} for every op once`));
  shown.push(figure('overhead', plan.overhead, 'Overhead', formatOverhead(plan.overhead),
                    plan.overhead * 100 + '%', 'beyond one run of every op'));
  if (plan.bound_time !== null && plan.bound_time !== undefined)
    shown.push(figure('bound_time', plan.bound_time, 'Proven bound', formatTime(plan.bound_time),
                      plan.bound_time + ' s', [plan.gap !== null ? `gap ${formatPercent(plan.gap)}` : '',
                       boundsAll(plan) ? '' : scopeWords(plan)].filter(Boolean).join('; ')));
  shown.push(figure('recomputed_ops', plan.recomputed_ops, 'Recomputations',
                    formatCount(plan.recomputed_ops), null, `beside ${plural(data.ops.name.length, 'op')}`));
  if (plan.offloaded_bytes > 0 || data.about.link)
    shown.push(bytes('offloaded_bytes', plan.offloaded_bytes, 'Moved to the host', 'and back, each step'));
  if (plan.arena_bytes)
    shown.push(bytes('arena_bytes', plan.arena_bytes, 'Arena', plan.arena_bytes > plan.peak_bytes
      ? `${formatPercent(plan.arena_bytes / plan.peak_bytes - 1)} lost to gaps` : 'nothing lost to gaps'));
  if (about.floor_bytes)
    shown.push(bytes('floor_bytes', about.floor_bytes, 'Floor', 'no plan needs less'));
  $('figures').replaceChildren(...shown);
}

function drawHead() {
  const plan = state.plan;
  $('title').textContent = shorten(clean(data.title), 120);
  if ($('title').textContent !== clean(data.title))
    $('title').title = clean(data.title);
  $('result').replaceChildren(...resultSentence(plan));
  $('plan').value = String(data.plans.indexOf(plan));
  $('plan-note').textContent = [plan.status ? statusWords(plan.status) : '', plan.message ? clean(plan.message) : '']
    .filter(Boolean).join(' · ');
  drawFigures(plan);
}

function startHead() {
  const order = data.plans.map((_, i) => i);
  order.sort((a, b) => (b === data.main) - (a === data.main) || (a === 0) - (b === 0));
  for (const i of order)
    $('plan').append(element('option', {value: i}, planLabel(data.plans[i]) +
      (i > 0 && data.plans[i].overhead !== null ? `  (${formatOverhead(data.plans[i].overhead)})` : '')));
  $('plan').addEventListener('change', () => showPlan(data.plans[Number($('plan').value)]));
}

/* ---- Reproduce ---- */

const formatRate = rate => scaled(rate / 1e9, 'GB/s');

function startReproduce() {
  const about = data.about, facts = [];
  $('command').textContent = clean(about.command || '');
  const fact = (name, value) => {
    if (value !== null && value !== undefined && value !== '')
      facts.push(element('dt', {}, name), element('dd', {'data-fact': name}, value));
  };
  fact('neap', about.neap);
  fact('graph', about.graph && nameElement(about.graph));
  fact('graph hash', about.graph_hash && element('code', {}, clean(about.graph_hash)));
  fact('ops, tensors, layers', `${formatCount(data.ops.name.length)}, ${
    formatCount(data.values.name.length)}, ${formatCount(data.layers.length)}`);
  fact('batch', about.batch && formatCount(about.batch));
  fact('device', about.device && nameElement(about.device));
  fact('link to the host', about.link && `${formatRate(about.link.out_bandwidth)} out, ${
    formatRate(about.link.in_bandwidth)} in, ${about.link.duplex ? 'both at once' : 'one at a time'}`);
  $('facts').replaceChildren(...facts);
  $('copy').addEventListener('click', copyCommand);
}

async function copyCommand() {
  const text = $('command').textContent;
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch (error) { /* not allowed, or not there: select it, and try the old way */
    const range = document.createRange();
    range.selectNodeContents($('command'));
    getSelection().removeAllRanges();
    getSelection().addRange(range);
    done = document.execCommand && document.execCommand('copy');
  }
  $('copy').textContent = done ? 'Copied' : 'Selected';
  say(done ? 'Command copied' : 'Command selected');
  setTimeout(() => { $('copy').textContent = 'Copy'; }, 2000);
}

/* ---- A training run ---- */

function lineChart(box, caption, steps, values, format, level) {
  const w = 560, h = 220, left = 64, bottom = 26, top = 8;
  const finite = values.filter(Number.isFinite);
  const all = level === null || level === undefined ? finite : [...finite, level];
  let least = Math.min(...all), most = Math.max(...all);
  const room = (most - least || Math.abs(most) || 1) * 0.08;
  least = least >= 0 ? Math.max(0, least - room) : least - room;
  most += room;
  const first = steps[0], last = Math.max(steps[steps.length - 1], first + 1);
  const x = step => left + (step - first) / (last - first) * (w - left - 12);
  const y = value => h - bottom - (value - least) / (most - least) * (h - top - bottom);
  const svg = svgElement('svg', {viewBox: `0 0 ${w} ${h}`, role: 'img', 'aria-label': caption});
  for (const tick of roundTicks(least, most, 4).ticks)
    svg.append(svgElement('line', {x1: left, x2: w - 12, y1: y(tick), y2: y(tick), style: 'stroke:var(--grid)'}),
      svgElement('text', {x: left - 6, y: y(tick) + 4, 'text-anchor': 'end'}, format(tick)));
  for (const tick of roundTicks(first, last, 5).ticks)
    svg.append(svgElement('text', {x: x(tick), y: h - 8, 'text-anchor': 'middle'}, formatCount(tick)));
  if (level !== null && level !== undefined)
    svg.append(svgElement('line', {x1: left, x2: w - 12, y1: y(level), y2: y(level), 'stroke-dasharray': '5 3',
                                   style: 'stroke:var(--outline)'}));
  let d = '';
  values.forEach((value, i) => {
    if (Number.isFinite(value))
      d += `${d ? 'L' : 'M'}${x(steps[i])} ${y(value)}`;
  });
  svg.append(svgElement('path', {d, fill: 'none', 'stroke-width': 1.75, style: 'stroke:var(--forward)'}));
  box.replaceChildren(element('figcaption', {}, caption), svg);
}

function startTraining() {
  const train = data.train;
  if (!train || train.steps.length === 0)
    return;
  $('training').hidden = false;
  document.querySelector('[data-for="training"]').hidden = false;
  const loss = train.loss, count = train.steps.length;
  $('training-note').textContent = `${plural(count, 'step')}; the loss goes from ${
    loss[0].toPrecision(5)} to ${loss[count - 1].toPrecision(5)}.` + (train.predicted
    ? ` Predicted: ${formatTime(train.predicted)} a step.` : '');
  lineChart($('loss-chart'), 'Loss by step', train.steps, loss, value => String(Number(value.toPrecision(4))));
  if (train.seconds)
    lineChart($('seconds-chart'), 'Time of a step' + (train.predicted ? '; dashed: predicted' : ''), train.steps,
              train.seconds, formatTime, train.predicted);
  const heads = ['step', 'loss', ...(train.seconds ? ['time'] : [])];
  $('training-table').replaceChildren(
    element('thead', {}, element('tr', {}, ...heads.map(text => element('th', {scope: 'col', class: 'num'}, text)))),
    element('tbody', {}, ...train.steps.map((step, i) => element('tr', {},
      element('td', {class: 'num'}, formatCount(step)), element('td', {class: 'num'}, String(loss[i])),
      train.seconds ? element('td', {class: 'num'}, formatTime(train.seconds[i])) : null))));
}
