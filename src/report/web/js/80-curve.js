/*
 * The trade-off: overhead against budget for every method, the proven bound below them, the floor as a wall.
 * Series that coincide are drawn once, with a joint label. Where there is only one budget, the methods are
 * told apart by the memory that their plans take: the horizontal axis is the peak. A few methods far above the others do not set
 * the scale: their points are at the top edge, with an arrow, until the full scale is asked for.
 */
const CURVE = {width: 1000, height: 400, left: 70, right: 24, top: 26, bottom: 46};
const SERIES_COLORS = ['l0', 'l5', 'l2', 'l3', 'l1', 'l6', 'l4', 'l7'];
const MARKERS = ['circle', 'square', 'diamond', 'up', 'down', 'cross', 'ring'];
const curveState = {series: [], hidden: new Set(), full: false, byPeak: false};

let madePoints = null;

/* The points of the curve; without one, the plans themselves. */
function curvePoints() {
  if (data.curve)
    return data.curve.points;
  return madePoints = madePoints || data.plans.slice(1).filter(plan => plan.budget_bytes || plan.peak_bytes).map(plan => (
    {method: plan.method, budget_bytes: plan.budget_bytes || plan.peak_bytes, status: plan.status,
     peak_bytes: plan.peak_bytes, overhead: plan.overhead, plan: data.plans.indexOf(plan)}));
}

const fits = point => point.overhead !== null && point.overhead !== undefined;
const placeOf = point => curveState.byPeak ? point.peak_bytes : point.budget_bytes;

/* Several methods at one budget. */
function hasOneBudget() {
  const points = curvePoints();
  return points.filter(fits).length > 1 && new Set(points.map(point => point.budget_bytes)).size === 1;
}

/* Methods in order of appearance, those with equal points joined. */
function readSeries() {
  const byMethod = new Map();
  for (const point of curvePoints()) {
    if (!byMethod.has(point.method))
      byMethod.set(point.method, []);
    byMethod.get(point.method).push(point);
  }
  const joined = new Map();
  for (const [method, points] of byMethod) {
    points.sort((a, b) => a.budget_bytes - b.budget_bytes);
    const drawn = points.filter(fits);
    const key = JSON.stringify(drawn.map(p => [placeOf(p), Number(p.overhead.toPrecision(9))]));
    const same = drawn.length > 0 ? joined.get(key) : null;
    if (same)
      same.methods.push(method);
    else
      joined.set(drawn.length > 0 ? key : method, {methods: [method], points, drawn});
  }
  return [...joined.values()].map((series, i) => Object.assign(series, {
    color: SERIES_COLORS[i % SERIES_COLORS.length], marker: MARKERS[i % MARKERS.length],
    dash: ['', '7 4', '2 3'][Math.floor(i / SERIES_COLORS.length) % 3],
    label: series.methods.map(method => shorten(clean(method), 24)).join(' = '),
  }));
}

/* By rising budget; each holds for all smaller budgets, too. */
function boundPoints() {
  if (data.curve)
    return data.curve.bound.slice().sort((a, b) => a.budget_bytes - b.budget_bytes);
  const base = data.about.base_time, best = new Map();
  for (const plan of data.plans)
    if (plan.bound_time !== null && plan.budget_bytes && boundsAll(plan))
      best.set(plan.budget_bytes, Math.max(best.get(plan.budget_bytes) || 0,
                                           Math.max(0, plan.bound_time / base - 1)));
  return [...best].map(([budget_bytes, overhead]) => ({budget_bytes, overhead}))
    .sort((a, b) => a.budget_bytes - b.budget_bytes);
}

const floorBytes = () => (data.curve && data.curve.floor_bytes) || data.about.floor_bytes || null;

/* The least overhead on the scale. A plan may choose faster kernels than those of one run of every op. */
function curveLow(shown, bound) {
  const all = [...shown.flatMap(series => series.drawn), ...bound].map(point => point.overhead);
  const least = Math.min(0, ...all);
  return least < -5e-4 ? least * 1.15 : 0;
}

/* The largest of ascending values that is not far above the others, as in src/report/robust_scale.c. */
function robustMost(values) {
  if (values.length === 0)
    return 0;
  const quantile = share => {
    const place = share * (values.length - 1), below = Math.floor(place), part = place - below;
    return part > 0 ? values[below] + part * (values[below + 1] - values[below]) : values[below];
  };
  const upper = quantile(0.75), distance = Math.max(upper - quantile(0.25), 0.25 * Math.abs(upper));
  const inside = values.filter(value => value <= upper + 3 * distance).pop();
  const most = values[values.length - 1];
  return most > 1.5 * inside ? inside : most;
}

/* The largest overhead on the scale, and the largest of all. */
function curveTop(shown) {
  const sorted = shown.flatMap(series => series.drawn.map(point => point.overhead)).sort((a, b) => a - b);
  const most = sorted.length ? sorted[sorted.length - 1] : 0;
  return {top: Math.max(curveState.full ? most : robustMost(sorted), 0.005), most};
}

function markerPath(marker, x, y, r) {
  switch (marker) {
  case 'square': return `M${x - r} ${y - r}h${2 * r}v${2 * r}h${-2 * r}z`;
  case 'diamond': return `M${x} ${y - 1.3 * r}l${1.3 * r} ${1.3 * r}l${-1.3 * r} ${1.3 * r}l${-1.3 * r} ${-1.3 * r}z`;
  case 'up': return `M${x} ${y - 1.2 * r}l${1.2 * r} ${2.2 * r}h${-2.4 * r}z`;
  case 'down': return `M${x} ${y + 1.2 * r}l${1.2 * r} ${-2.2 * r}h${-2.4 * r}z`;
  case 'cross': return `M${x - r} ${y - r}l${2 * r} ${2 * r}m0 ${-2 * r}l${-2 * r} ${2 * r}`;
  default: return `M${x - r} ${y}a${r} ${r} 0 1 0 ${2 * r} 0a${r} ${r} 0 1 0 ${-2 * r} 0z`;
  }
}

function markerElement(series, x, y, r) {
  const open = series.marker === 'cross' || series.marker === 'ring';
  return svgElement('path', {d: markerPath(series.marker, x, y, r), 'stroke-width': open ? 2 : 1,
    style: `fill:${open ? series.marker === 'ring' ? 'var(--page)' : 'none' : `var(--${series.color})`};stroke:${
      open ? `var(--${series.color})` : 'var(--page)'}`});
}

/* ---- The picture ---- */

function curveScale(shown, bound) {
  const places = shown.flatMap(series => (curveState.byPeak ? series.drawn : series.points).map(placeOf));
  places.push(...bound.map(point => point.budget_bytes));
  const floor = floorBytes(), natural = data.about.natural_peak_bytes;
  let least = Math.min(...places, natural), most = Math.max(...places);
  if (natural < 8 * most) /* further away it would squeeze the points */
    most = Math.max(most, natural);
  if (floor && floor < most)
    least = Math.min(least, floor);
  const room = Math.max((most - least) * 0.04, most * 0.01);
  least = Math.max(0, least - 1.5 * room);
  most += room;
  const {top, most: highest} = curveTop(shown);
  const low = curveLow(shown, bound), range = top * 1.06 - low;
  const width = CURVE.width - CURVE.left - CURVE.right;
  const height = CURVE.height - CURVE.top - CURVE.bottom;
  return {least, most, low, top, highest,
    x: bytes => CURVE.left + (bytes - least) / (most - least) * width,
    y: overhead => CURVE.height - CURVE.bottom - Math.min((overhead - low) / range, 1.02) * height};
}

function drawCurve(width = $('curve').clientWidth) {
  if (curveState.series.length === 0)
    return;
  const shown = curveState.series.filter(series => !curveState.hidden.has(series));
  CURVE.width = Math.max(320, Math.min(width || 1000, 1272));
  CURVE.height = CURVE.width < 640 ? 320 : 400;
  const bound = boundPoints(), scale = curveScale(shown.length ? shown : curveState.series, bound);
  const svg = svgElement('svg', {viewBox: `0 0 ${CURVE.width} ${CURVE.height}`, role: 'group',
    'aria-label': `Overhead against ${curveState.byPeak ? 'peak memory' : 'budget'}; each point is a plan`});
  drawCurveAxes(svg, scale);
  drawFloor(svg, scale);
  drawBound(svg, scale, bound);
  const marks = svgElement('g');
  let clipped = 0;
  for (const series of shown)
    clipped += drawSeries(svg, marks, series, scale);
  svg.append(marks);
  const focused = document.activeElement && document.activeElement.dataset
    ? document.activeElement.dataset.point : null;
  $('curve').replaceChildren(svg);
  const again = focused && svg.querySelector(`[data-point="${focused}"]`);
  if (again)
    again.focus();
  $('clipped').hidden = clipped === 0;
  $('clipped').textContent = `↑ ${plural(clipped, 'point')} above the scale, up to ${
    formatOverhead(scale.highest)}; “Full scale” shows ${clipped === 1 ? 'it' : 'them'} in place.`;
}

function drawCurveAxes(svg, scale) {
  const bottom = CURVE.height - CURVE.bottom, right = CURVE.width - CURVE.right;
  const line = (x0, y0, x1, y1, color) => svg.append(svgElement('line',
    {x1: x0, y1: y0, x2: x1, y2: y1, style: `stroke:var(--${color})`}));
  const text = (x, y, anchor, content) => svg.append(svgElement('text',
    {x, y, 'text-anchor': anchor}, content));
  const percents = roundTicks(scale.low * 100, scale.top * 106, 5);
  for (const tick of percents.ticks) {
    line(CURVE.left, scale.y(tick / 100), right, scale.y(tick / 100), tick === 0 ? 'line' : 'grid');
    text(CURVE.left - 8, scale.y(tick / 100) + 4, 'end',
         (tick < 0 ? '−' : '+') + Math.abs(tick).toFixed(tickDecimals(percents.step)) + '%');
  }
  const unit = byteUnit(scale.most), factor = 1024 ** unit;
  const sizes = roundTicks(scale.least / factor, scale.most / factor, Math.max(3, Math.floor(CURVE.width / 120)));
  for (const tick of sizes.ticks) {
    line(scale.x(tick * factor), bottom, scale.x(tick * factor), bottom + 5, 'line');
    text(scale.x(tick * factor), bottom + 19, 'middle',
         tick.toFixed(tickDecimals(sizes.step)) + ' ' + BYTE_UNITS[unit]);
  }
  line(CURVE.left, bottom, right, bottom, 'line');
  text(right, CURVE.height - 6, 'end', curveState.byPeak ? 'peak memory' : 'budget');
  text(CURVE.left, 12, 'start', CURVE.width < 640 ? 'overhead' : 'overhead: time beyond one run of every op');
  const upright = (bytes, color, label, onRight) => {
    const x = scale.x(bytes), y = CURVE.top + (CURVE.width < 640 ? 24 : 8);
    svg.append(svgElement('line', {x1: x, y1: CURVE.top, x2: x, y2: bottom, 'stroke-dasharray': '5 3',
                                   style: `stroke:var(--${color})`}));
    text(onRight ? x + 5 : x - 5, onRight ? y + 16 : y, onRight ? 'start' : 'end', label);
  };
  const natural = data.about.natural_peak_bytes;
  if (natural >= scale.least && natural <= scale.most)
    upright(natural, 'outline', 'without a plan', false);
  const budget = curveState.byPeak ? curvePoints()[0].budget_bytes : null;
  if (budget)
    upright(budget, 'budget', 'budget ' + formatBytes(budget), scale.x(budget) < right - 110);
}

function drawFloor(svg, scale) {
  const floor = floorBytes();
  if (!floor || floor <= scale.least)
    return;
  const hatch = svgElement('pattern', {id: 'hatch', width: 7, height: 7, patternUnits: 'userSpaceOnUse',
                                       patternTransform: 'rotate(45)'},
    svgElement('line', {x1: 0, y1: 0, x2: 0, y2: 7, 'stroke-width': 2.5, style: 'stroke:var(--wall)'}));
  const height = CURVE.height - CURVE.top - CURVE.bottom, x = scale.x(floor);
  svg.append(svgElement('defs', {}, hatch),
    svgElement('rect', {x: CURVE.left, y: CURVE.top, width: x - CURVE.left, height, fill: 'url(#hatch)'}),
    svgElement('line', {x1: x, y1: CURVE.top, x2: x, y2: CURVE.top + height, 'stroke-width': 1.5,
                        style: 'stroke:var(--outline)'}),
    svgElement('text', {x: x + 6, y: CURVE.top + 8, 'data-bytes': floor},
               `floor ${formatBytes(floor)}` + (CURVE.width < 640 ? '' : ': no plan needs less')));
}

/* Stairs: what is proven for a budget is proven for all smaller ones, and for none above it. */
function drawBound(svg, scale, bound) {
  const floor = Math.max(scale.least, floorBytes() || 0), left = scale.x(floor), bottom = CURVE.height - CURVE.bottom;
  bound = bound.filter(point => point.budget_bytes > floor);
  if (bound.length === 0)
    return;
  const d = `M${left} ${scale.y(bound[0].overhead)}` + bound.map(point =>
    `V${scale.y(point.overhead)}H${scale.x(point.budget_bytes)}`).join('');
  svg.append(svgElement('path', {d: `${d}V${bottom}H${left}z`, style: 'fill:var(--ink);opacity:.06'}),
    svgElement('path', {class: 'bound', d, fill: 'none', 'stroke-width': 1.5, 'stroke-dasharray': '2 3',
                        style: 'stroke:var(--ink)'}));
}

/* Returns how many points lie above the scale. */
function drawSeries(svg, marks, series, scale) {
  let clipped = 0, d = '', broken = true;
  for (const point of series.points) {
    if (!fits(point)) {
      broken = true;
      continue;
    }
    d += `${broken ? 'M' : 'L'}${scale.x(placeOf(point))} ${scale.y(point.overhead)}`;
    broken = false;
    const above = point.overhead > scale.top * 1.06;
    clipped += above ? 1 : 0;
    marks.append(pointElement(series, point, scale, above));
  }
  if (d)
    svg.append(svgElement('path', {d, fill: 'none', 'stroke-width': 1.75, 'stroke-linejoin': 'round',
      'stroke-dasharray': series.dash || null, style: `stroke:var(--${series.color})`}));
  return clipped;
}

function pointElement(series, point, scale, above) {
  const x = scale.x(placeOf(point)), y = above ? CURVE.top - 2 : scale.y(point.overhead);
  const plan = point.plan === null ? null : data.plans[point.plan];
  const text = `${series.label}, budget ${formatBytes(point.budget_bytes)}: ${
    formatOverhead(point.overhead)}` + (point.peak_bytes ? `, peak ${formatBytes(point.peak_bytes)}` : '') +
    (above ? ' (above the scale)' : '') + (plan ? '' : '; its plan is not in this file');
  const group = svgElement('g', {class: 'point', tabindex: plan ? 0 : null, role: plan ? 'button' : 'img',
    'aria-label': text, 'aria-pressed': plan ? String(plan === state.plan) : null,
    'data-point': curvePoints().indexOf(point), 'data-plan': point.plan, 'data-method': clean(point.method),
    'data-budget': point.budget_bytes, 'data-overhead': point.overhead});
  group.append(svgElement('circle', {class: 'halo', cx: x, cy: y, r: 11}));
  if (above)
    group.append(svgElement('path', {d: `M${x} ${y - 6}l5 8h-10z`, style: `fill:var(--${series.color})`}));
  else
    group.append(markerElement(series, x, y, 4));
  if (plan && plan === state.plan)
    group.append(svgElement('circle', {class: 'shown', cx: x, cy: y, r: 9}));
  const tip = event => showTip(text + (plan ? '\nclick to show this plan' : ''), event);
  group.addEventListener('pointermove', tip);
  group.addEventListener('pointerleave', hideTip);
  if (plan) {
    group.addEventListener('click', () => showPlan(plan));
    group.addEventListener('keydown', event => pointKey(event, plan));
  }
  return group;
}

function pointKey(event, plan) {
  const all = [...$('curve').querySelectorAll('.point[tabindex]')];
  const at = all.indexOf(event.currentTarget);
  const next = {ArrowRight: at + 1, ArrowDown: at + 1, ArrowLeft: at - 1, ArrowUp: at - 1}[event.key];
  if (event.key === 'Enter' || event.key === ' ')
    showPlan(plan);
  else if (next === undefined)
    return;
  else if (all[next])
    all[next].focus();
  event.preventDefault();
}

/* ---- Around it ---- */

function drawMethodToggles() {
  const box = $('methods');
  box.replaceChildren();
  for (const series of curveState.series) {
    const sample = svgElement('svg', {viewBox: '0 0 22 12', 'aria-hidden': 'true'},
      svgElement('line', {x1: 0, y1: 6, x2: 22, y2: 6, 'stroke-width': 1.75,
        'stroke-dasharray': series.dash || null, style: `stroke:var(--${series.color})`}),
      markerElement(series, 11, 6, 3.5));
    const none = series.drawn.length === 0;
    const button = element('button', {type: 'button', 'data-method': clean(series.methods[0]),
      'aria-pressed': String(!curveState.hidden.has(series)), disabled: none}, sample,
      element('bdi', {}, series.label + (none ? ' (no plan fits)' : '')));
    button.addEventListener('click', () => {
      if (!curveState.hidden.delete(series))
        curveState.hidden.add(series);
      button.setAttribute('aria-pressed', String(!curveState.hidden.has(series)));
      drawCurve();
    });
    box.append(button);
  }
  const full = element('button', {type: 'button', id: 'full-scale', class: 'plain',
                                  'aria-pressed': 'false'}, 'Full scale');
  full.addEventListener('click', () => {
    curveState.full = !curveState.full;
    full.setAttribute('aria-pressed', String(curveState.full));
    drawCurve();
  });
  const {top, most} = curveTop(curveState.series);
  if (most > top * 1.06)
    box.append(full);
}

function drawCurveTable() {
  const head = element('thead', {}, element('tr', {}, ...['method', 'budget', 'peak', 'overhead', 'status', '']
    .map((text, i) => element('th', {scope: 'col', class: i > 0 && i < 4 ? 'num' : null}, text))));
  const body = element('tbody');
  for (const point of curvePoints()) {
    const plan = point.plan === null ? null : data.plans[point.plan];
    let button = '';
    if (plan) {
      button = element('button', {type: 'button'}, 'Show');
      button.addEventListener('click', () => showPlan(plan));
    }
    body.append(element('tr', {}, element('td', {}, nameElement(point.method)),
      bytesElement(point.budget_bytes, 'td', {class: 'num'}),
      point.peak_bytes ? bytesElement(point.peak_bytes, 'td', {class: 'num'}) : element('td', {class: 'num'}, '–'),
      element('td', {class: 'num', 'data-overhead': point.overhead}, fits(point) ? formatOverhead(point.overhead) : '–'),
      element('td', {}, statusWords(point.status)), element('td', {}, button)));
  }
  $('curve-table').replaceChildren(head, body);
}

function startCurve() {
  curveState.byPeak = hasOneBudget();
  curveState.series = readSeries();
  const empty = curvePoints().length === 0;
  $('tradeoff').hidden = empty;
  document.querySelector('[data-for="tradeoff"]').hidden = empty;
  if (empty)
    return;
  const bound = boundPoints();
  if (curveState.byPeak)
    $('tradeoff-title').textContent = 'Method by method';
  $('tradeoff-note').textContent = 'Each point is a plan: how much longer a step takes than one run of every op, by ' +
    (curveState.byPeak ? 'the memory that it needs.' : 'budget.') +
    (bound.length > 0 ? ' The dotted line is proven: no plan is below it.' : '') +
    ' Click a point to show its plan in the whole report.';
  drawMethodToggles();
  drawCurveTable();
  let width = 0;
  new ResizeObserver(() => {
    if ($('curve').clientWidth !== width) {
      width = $('curve').clientWidth;
      drawCurve();
    }
  }).observe($('curve'));
}
