/*
 * What is shown: the plan, the axis, the stretch of it in view, the moment selected. Charts that share
 * the horizontal axis share all of it. Drawing happens once a frame, and only where it can be seen.
 */
const state = {
  plan: data.plans[data.main] || storeAll,
  replay: null,
  axis: 'time', /* or 'step' */
  stack: 'kind', /* or 'layer' */
  from: 0, to: 1, /* in view, in units of the axis */
  step: 0, /* the moment selected */
  pinned: false,
  explain: false, /* the panel explains the peak */
};

const LEFT = 66, RIGHT = 10; /* margins of linked charts, in pixels */

/* ---- Colours, read from the style so that they follow the theme ---- */

let palette = null;

function colors() {
  if (!palette) {
    const style = getComputedStyle(document.documentElement);
    const get = name => style.getPropertyValue('--' + name).trim();
    palette = {kinds: data.kinds.map((_, i) => get('k' + Math.min(i, 5)))};
    palette.layers = Array.from({length: TOP_LAYERS + 1}, (_, i) => get('l' + i));
    palette.roles = ['forward', 'backward', 'update', 'again'].map(get);
    for (const name of ['ink', 'muted', 'line', 'grid', 'outline', 'budget', 'mark', 'accent', 'out',
                        'in', 'gap', 'card', 'page', 'wall'])
      palette[name] = get(name);
  }
  return palette;
}

const FONT = '11px system-ui, -apple-system, "Segoe UI", Roboto, "Liberation Sans", Arial, sans-serif';

/* ---- Axes ---- */

/* Round positions in [from, to], about `wanted` of them: {step, ticks}. */
function roundTicks(from, to, wanted) {
  const raw = Math.max((to - from) / Math.max(wanted, 1), Number.MIN_VALUE);
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 5, 10].map(m => m * power).find(s => s >= raw * 0.999) || raw;
  const ticks = [];
  for (let i = Math.ceil(from / step - 1e-9); i * step <= to + step * 1e-9; i++)
    ticks.push(i * step + 0); /* no negative zero */
  return {step, ticks};
}

function tickDecimals(step) {
  return Math.max(0, Math.min(12, -Math.floor(Math.log10(step) + 1e-9)));
}

function byteTicks(most, wanted) {
  const unit = byteUnit(most), factor = 1024 ** unit;
  const {step, ticks} = roundTicks(0, most / factor, wanted);
  return ticks.map(tick => ({at: tick * factor,
                             label: tick.toFixed(tickDecimals(step)) + ' ' + BYTE_UNITS[unit]}));
}

function timeTicks(from, to, wanted) {
  const unit = to >= 0.9995 ? 1 : to >= 0.9995e-3 ? 1e3 : 1e6;
  const {step, ticks} = roundTicks(from * unit, to * unit, wanted);
  const decimals = tickDecimals(step), digits = {minimumFractionDigits: decimals, maximumFractionDigits: decimals};
  const name = unit === 1 ? ' s' : unit === 1e3 ? ' ms' : ' µs';
  return ticks.map(tick => ({at: tick / unit, label: tick.toLocaleString('en-US', digits) + name}));
}

function stepTicks(from, to, wanted) {
  const {step, ticks} = roundTicks(from, to, wanted);
  return step < 1 ? roundTicks(from, to, (to - from)).ticks.map(wholeTick) : ticks.map(wholeTick);
}

const wholeTick = tick => ({at: tick, label: formatCount(Math.round(tick))});

/* ---- Extent of steps on the axis ---- */

const wholeSpan = () => state.axis === 'time' ? Math.max(state.replay.span, replayOf(storeAll).span)
                                              : Math.max(state.replay.count, replayOf(storeAll).count);
const leastSpan = () => state.axis === 'time' ? wholeSpan() * 1e-6 : Math.min(4, wholeSpan());

/* The steps [first, last) with a part in [from, to) of the axis; `ends`: the axis ends at `to`. */
function stepsIn(replay, from, to, ends) {
  if (state.axis === 'step') {
    const first = Math.max(0, Math.min(Math.floor(from), replay.count));
    return [first, Math.max(first, Math.min(ends ? replay.count : Math.ceil(to), replay.count))];
  }
  let first = lowerBound(replay.t1, from);
  if (first < replay.count && replay.t1[first] === from && replay.t0[first] < from)
    first++;
  return [first, ends ? replay.count : Math.max(first, lowerBound(replay.t0, to))];
}

const beginOf = (replay, k) => state.axis === 'time' ? replay.t0[k] : k;
const endOf = (replay, k) => state.axis === 'time' ? replay.t1[k] : k + 1;

/* ---- Charts ---- */

const charts = [];
let frameAsked = false;

function askFrame() {
  if (!frameAsked) {
    frameAsked = true;
    requestAnimationFrame(drawFrame);
  }
}

function drawFrame() {
  frameAsked = false;
  for (const chart of charts)
    chart.refresh();
}

/* What changed: 'all' the picture, or only the 'cursor'. */
function changed(what) {
  for (const chart of charts) {
    chart.cursorStale = true;
    chart.stale = chart.stale || what === 'all';
  }
  askFrame();
}

class Chart {
  constructor(id, label) {
    this.box = $(id);
    this.height = Number(this.box.dataset.height);
    this.top = 8;
    this.bottom = 8;
    this.box.style.height = this.height + 'px';
    this.base = element('canvas', {'aria-hidden': 'true'});
    this.over = element('canvas', {class: 'over', 'aria-hidden': 'true'});
    this.box.append(this.base, this.over);
    this.box.tabIndex = 0;
    setAttributes(this.box, {role: 'img', 'aria-label': label, 'aria-describedby': 'keys'});
    this.visible = true;
    this.stale = this.cursorStale = true;
    charts.push(this);
    new ResizeObserver(() => { this.stale = true; askFrame(); }).observe(this.box);
    new IntersectionObserver(entries => {
      this.visible = entries[entries.length - 1].isIntersecting;
      askFrame();
    }, {rootMargin: '150px'}).observe(this.box);
    linkPointer(this);
  }

  refresh(always) {
    if (!always && (!this.visible || !(this.stale || this.cursorStale)))
      return;
    const width = this.box.clientWidth;
    if (width === 0)
      return;
    if (this.stale || always)
      this.prepare(this.base, width, context => this.draw(context, width));
    this.prepare(this.over, width, context => this.drawCursor(context, width));
    this.stale = this.cursorStale = false;
  }

  prepare(canvas, width, draw) {
    const ratio = Math.min(window.devicePixelRatio || 1, 2);
    const w = Math.round(width * ratio), h = Math.round(this.height * ratio);
    if (canvas.width !== w || canvas.height !== h) {
      canvas.width = w;
      canvas.height = h;
    }
    const context = canvas.getContext('2d');
    this.ratio = ratio;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, this.height);
    context.font = FONT;
    draw(context);
  }

  plotWidth(width = this.box.clientWidth) {
    return Math.max(1, width - LEFT - RIGHT);
  }

  xOf(at, width) {
    return LEFT + (at - state.from) / (state.to - state.from) * this.plotWidth(width);
  }

  atOf(x, width) {
    return state.from + (x - LEFT) / this.plotWidth(width) * (state.to - state.from);
  }

  /* The step shown at a pixel: of those in it, the one with most memory. */
  stepAtPixel(x) {
    const replay = state.replay, width = this.box.clientWidth;
    const at = Math.max(LEFT, Math.min(x, width - RIGHT - 0.01));
    let [first, last] = stepsIn(replay, this.atOf(Math.floor(at), width),
                                this.atOf(Math.floor(at) + 1, width), false);
    if (first >= replay.count)
      return replay.count - 1;
    return last > first ? replay.maxima.largest(first, last) : first;
  }

  drawTimeAxis(context, width, withLabels) {
    const c = colors(), bottom = this.height - this.bottom;
    const wanted = Math.max(3, Math.floor(this.plotWidth(width) / 90));
    const ticks = state.axis === 'time' ? timeTicks(state.from, state.to, wanted)
                                        : stepTicks(state.from, state.to, wanted);
    context.strokeStyle = c.grid;
    context.lineWidth = 1;
    context.beginPath();
    for (const tick of ticks) {
      const x = Math.round(this.xOf(tick.at, width)) + 0.5;
      context.moveTo(x, this.top);
      context.lineTo(x, bottom);
    }
    context.stroke();
    if (!withLabels)
      return;
    context.fillStyle = c.muted;
    context.textAlign = 'center';
    context.textBaseline = 'top';
    for (const tick of ticks) {
      const x = this.xOf(tick.at, width), half = context.measureText(tick.label).width / 2;
      context.fillText(tick.label, Math.min(Math.max(x, LEFT + half - 6), width - half), bottom + 6);
    }
  }

  clip(context, width) {
    context.beginPath();
    context.rect(LEFT, 0, this.plotWidth(width), this.height - this.bottom + 1);
    context.clip();
  }

  drawCursor(context, width) {
    const replay = state.replay, c = colors();
    if (replay.count === 0)
      return;
    const x0 = this.xOf(beginOf(replay, state.step), width);
    const x1 = this.xOf(endOf(replay, state.step), width);
    if (x1 < LEFT - 1 || x0 > width - RIGHT + 1)
      return;
    context.save();
    this.clip(context, width);
    if (x1 - x0 > 3) {
      context.globalAlpha = 0.12;
      context.fillStyle = c.mark;
      context.fillRect(x0, this.top, x1 - x0, this.height - this.top - this.bottom);
      context.globalAlpha = 1;
    }
    this.drawCursorLine(context, Math.round((x0 + x1) / 2));
    if (this.brush) {
      context.globalAlpha = 0.18;
      context.fillStyle = c.accent;
      context.fillRect(Math.min(...this.brush), this.top, Math.abs(this.brush[1] - this.brush[0]),
                       this.height - this.top - this.bottom);
    }
    context.restore();
  }

  drawCursorLine(context, x) {
    context.fillStyle = colors().mark;
    context.fillRect(x, this.top - 2, 1.25, this.height - this.top - this.bottom + 4);
  }
}

/* Pixels drawn one by one: rectangles by the ten thousand, without a call for each. */
class Raster {
  constructor(width, height) {
    this.width = width;
    this.height = height;
    this.image = new ImageData(width, height);
    this.pixels = new Uint32Array(this.image.data.buffer);
  }

  rectangle(x0, y0, x1, y1, color) {
    const left = Math.max(0, Math.floor(x0)), right = Math.min(this.width, Math.ceil(x1));
    const top = Math.max(0, Math.floor(y0)), bottom = Math.min(this.height, Math.ceil(y1));
    if (left < right)
      for (let y = top; y < bottom; y++)
        this.pixels.fill(color, y * this.width + left, y * this.width + right);
  }
}

/* "#rrggbb" as the word that a Raster takes; all machines that run browsers are little-endian. */
function pixelOf(color) {
  const rgb = parseInt(color.slice(1), 16);
  return (0xff000000 | (rgb & 0xff) << 16 | (rgb & 0xff00) | rgb >> 16) >>> 0;
}

function scaleRaster(chart, width) {
  const w = Math.max(1, Math.round(chart.plotWidth(width) * chart.ratio));
  const h = Math.max(1, Math.round((chart.height - chart.top - chart.bottom) * chart.ratio));
  if (!chart.raster || chart.raster.width !== w || chart.raster.height !== h)
    chart.raster = new Raster(w, h);
  chart.raster.pixels.fill(0);
  return chart.raster;
}

function putRaster(chart, context) {
  context.putImageData(chart.raster.image, Math.round(LEFT * chart.ratio),
                       Math.round(chart.top * chart.ratio));
}
