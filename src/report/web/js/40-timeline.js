/*
 * Memory over time. Every column of pixels shows the step with most memory among those in it, so that
 * no peak is lost at any zoom, and what is stacked adds up to a state that really occurs.
 */

/* What is stacked: [{label, color, values}], the lowest first. */
function bandsOf(replay) {
  const c = colors();
  if (state.stack === 'kind') {
    const order = ['parameters', 'state', 'other', 'gradients', 'activations', 'workspace'];
    return order.map(name => data.kinds.indexOf(name)).filter(kind => kind >= 0).map(kind => (
      {label: kindName(kind), color: c.kinds[kind], values: replay.kinds[kind]}));
  }
  const {top, bands} = replay.layers;
  const made = top.map((layer, i) => (
    {label: layerName(layer), color: c.layers[i], values: bands[i]}));
  made.unshift({label: top.length < data.layers.length ? 'all other layers, data' : 'data and other',
                color: c.layers[TOP_LAYERS], values: bands[top.length]});
  return made;
}

class Timeline extends Chart {
  constructor() {
    super('timeline', 'Memory over the training step');
    this.top = 18;
    this.bottom = 26;
    setAttributes(this.box, {role: 'slider', 'aria-valuemin': 0});
  }

  /* The top of the scale: the plan's budget and peak, and the ordinary step's peak. */
  scaleTop() {
    const plan = state.plan;
    return 1.04 * Math.max(plan.peak_bytes, storeAll.peak_bytes, 1,
                           plan.budget_bytes && plan.budget_bytes < 2 * storeAll.peak_bytes
                             ? plan.budget_bytes : 0);
  }

  yOf(bytes) {
    return this.height - this.bottom - bytes / this.most * (this.height - this.top - this.bottom);
  }

  /* For each column of device pixels, the step to show; -1 where the plan has ended. */
  columns(replay, width) {
    const count = Math.round(this.plotWidth(width) * this.ratio), span = state.to - state.from;
    const steps = new Int32Array(count).fill(-1), whole = wholeSpan();
    for (let i = 0; i < count; i++) {
      const from = state.from + i / count * span, to = state.from + (i + 1) / count * span;
      const [first, last] = stepsIn(replay, from, to, i === count - 1 && to >= whole * (1 - 1e-12));
      if (last > first)
        steps[i] = replay.maxima.largest(first, last);
    }
    return steps;
  }

  draw(context, width) {
    const replay = state.replay;
    this.most = this.scaleTop();
    this.drawByteAxis(context, width);
    this.drawTimeAxis(context, width, true);
    context.save();
    this.clip(context, width);
    this.drawBands(context, this.columns(replay, width), bandsOf(replay));
    if (state.plan !== storeAll)
      this.drawOutline(context, this.columns(replayOf(storeAll), width), replayOf(storeAll).live);
    context.restore();
    this.drawMarks(context, width);
    this.describe();
  }

  drawByteAxis(context, width) {
    const c = colors();
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const tick of byteTicks(this.most, 5)) {
      const y = Math.round(this.yOf(tick.at)) + 0.5;
      context.fillStyle = c.grid;
      context.fillRect(LEFT, y - 0.5, this.plotWidth(width), 1);
      context.fillStyle = c.muted;
      context.fillText(tick.label, LEFT - 8, y);
    }
  }

  drawBands(context, steps, bands) {
    const below = new Float64Array(steps.length), above = new Float64Array(steps.length);
    const pixel = 1 / this.ratio;
    for (const band of bands) {
      for (let i = 0; i < steps.length; i++)
        above[i] = below[i] + (steps[i] < 0 ? 0 : band.values[steps[i]]);
      context.fillStyle = band.color;
      context.beginPath();
      this.trace(context, below, pixel, false);
      this.trace(context, above, pixel, true);
      context.fill();
      below.set(above);
    }
  }

  /* Adds the stairs of a row of heights to the path, forwards or backwards. */
  trace(context, heights, pixel, backwards) {
    const count = heights.length;
    if (!backwards)
      context.moveTo(LEFT, this.yOf(heights[0]));
    for (let n = 0; n < count; n++) {
      const i = backwards ? count - 1 - n : n, y = this.yOf(heights[i]);
      let run = n; /* columns of one height are one line */
      while (run + 1 < count && heights[backwards ? count - 2 - run : run + 1] === heights[i])
        run++;
      const j = backwards ? count - 1 - run : run;
      context.lineTo(LEFT + (backwards ? i + 1 : i) * pixel, y);
      context.lineTo(LEFT + (backwards ? j : j + 1) * pixel, y);
      n = run;
    }
  }

  drawOutline(context, steps, live) {
    const pixel = 1 / this.ratio;
    context.strokeStyle = colors().outline;
    context.lineWidth = 1.25;
    context.lineJoin = 'round';
    context.beginPath();
    for (let i = 0, open = false; i < steps.length; i++) {
      if (steps[i] < 0) {
        open = false;
        continue;
      }
      const y = this.yOf(live[steps[i]]), x = LEFT + i * pixel;
      if (open)
        context.lineTo(x, y);
      else
        context.moveTo(x, y);
      open = true;
      while (i + 1 < steps.length && steps[i + 1] >= 0 && live[steps[i + 1]] === live[steps[i]])
        i++;
      context.lineTo(LEFT + (i + 1) * pixel, y);
    }
    context.stroke();
  }

  /* The budget, the peak of the ordinary step and of the plan. */
  drawMarks(context, width) {
    const c = colors(), right = width - RIGHT, plan = state.plan;
    const labels = [];
    const line = (bytes, color, text) => {
      const y = Math.round(this.yOf(bytes)) + 0.5;
      context.strokeStyle = color;
      context.setLineDash([5, 3]);
      context.lineWidth = 1.25;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(right, y);
      context.stroke();
      context.setLineDash([]);
      labels.push({y, color, text});
    };
    if (plan !== storeAll)
      line(storeAll.peak_bytes, c.outline, 'without a plan ' + formatBytes(storeAll.peak_bytes));
    if (plan.budget_bytes && plan.budget_bytes <= this.most)
      line(plan.budget_bytes, c.budget, 'budget ' + formatBytes(plan.budget_bytes));
    /* At the end that is farther from the peak, which has a label, too. */
    const replay = state.replay, peak = replay.count > 0 ? this.xOf(beginOf(replay, replay.peak), width) : 0;
    const left = peak > LEFT + 0.55 * this.plotWidth(width);
    let last = -Infinity;
    this.labels = [];
    for (const label of labels.sort((a, b) => a.y - b.y)) {
      const y = Math.max(label.y, last + 15);
      this.drawLabel(context, label.text, left ? LEFT + 4 : right - 4, y - 3, label.color, left ? 'left' : 'right');
      last = y;
      const wide = context.measureText(label.text).width;
      this.labels.push({from: left ? LEFT + 4 : right - 4 - wide, to: left ? LEFT + 4 + wide : right - 4, y: y - 3});
    }
    this.drawPeak(context, width);
  }

  /* Solid above what is live, faint within it: a peak of one pixel stays visible. */
  drawCursorLine(context, x) {
    const y = this.yOf(state.replay.live[state.step]), bottom = this.height - this.bottom + 2;
    context.fillStyle = colors().mark;
    context.fillRect(x, this.top - 2, 1.25, y - this.top + 2);
    context.globalAlpha = 0.35;
    context.fillRect(x, y, 1.25, bottom - y);
    context.globalAlpha = 1;
  }

  drawLabel(context, text, x, y, color, align) {
    const c = colors();
    context.textAlign = align;
    context.textBaseline = 'bottom';
    context.lineWidth = 3.5;
    context.lineJoin = 'round';
    context.strokeStyle = c.page;
    context.strokeText(text, x, y);
    context.fillStyle = color;
    context.fillText(text, x, y);
  }

  drawPeak(context, width) {
    const replay = state.replay, c = colors();
    if (replay.count === 0)
      return;
    const x = this.xOf((beginOf(replay, replay.peak) + endOf(replay, replay.peak)) / 2, width);
    if (x < LEFT - 1 || x > width - RIGHT + 1)
      return;
    const y = this.yOf(replay.live[replay.peak]);
    context.fillStyle = c.mark;
    context.beginPath();
    context.moveTo(x, y - 1);
    context.lineTo(x - 4.5, y - 9);
    context.lineTo(x + 4.5, y - 9);
    context.fill();
    const text = 'peak ' + formatBytes(replay.live[replay.peak]);
    const wide = context.measureText(text).width, align = x - 12 - wide < LEFT ? 'left' : 'right';
    const from = align === 'left' ? x + 9 : x - 9 - wide;
    let row = y - 3; /* above the labels that it would touch */
    for (const label of this.labels.slice().sort((a, b) => b.y - a.y))
      if (from < label.to + 6 && label.from < from + wide + 6 && Math.abs(label.y - row) < 13)
        row = label.y - 13;
    this.drawLabel(context, text, x + (align === 'left' ? 9 : -9), Math.max(row, 12), c.mark, align);
  }

  describe() {
    const replay = state.replay;
    setAttributes(this.box, {'aria-valuemax': Math.max(0, replay.count - 1),
                             'data-columns': Math.round(this.plotWidth() * this.ratio)});
  }

  tipAt(x) {
    return momentTip(this.stepAtPixel(x));
  }

  pick(x) {
    return this.stepAtPixel(x);
  }
}

/* A step in one line: "computes layer1.0.conv1 again". */
function describeStep(replay, k) {
  const letter = replay.letter[k], id = replay.ids[k];
  if (letter === FREE)
    return 'frees ' + valueName(id);
  if (letter === OFFLOAD)
    return 'starts copying ' + valueName(id) + ' to the host';
  if (letter === PREFETCH)
    return 'starts copying ' + valueName(id) + ' back';
  const what = replay.role[k] === AGAIN ? 'recomputes ' : 'computes ';
  return what + opName(id) + (letter === IN_PLACE ? ' in place' : '');
}

function momentTip(k) {
  const replay = state.replay;
  if (replay.count === 0)
    return '';
  const bands = bandsOf(replay).filter(band => band.values[k] > 0).reverse();
  return formatBytes(replay.live[k]) + ' live\nstep ' + formatCount(k) + ' ' +
         describeStep(replay, k) + '\n' +
         bands.map(band => band.label + ': ' + formatBytes(band.values[k])).join('\n');
}

function drawLegend() {
  const c = colors(), items = bandsOf(state.replay).reverse();
  const list = $('legend');
  list.replaceChildren();
  for (const item of items) {
    if (state.stack === 'kind' && item.values.every(bytes => bytes === 0))
      continue;
    const swatch = element('i');
    swatch.style.background = item.color;
    list.append(element('li', {}, swatch, element('bdi', {}, item.label)));
  }
  if (state.plan !== storeAll) {
    const line = element('i', {class: 'line'});
    line.style.borderColor = c.outline;
    list.append(element('li', {}, line, 'without a plan'));
  }
  const roles = [['forward', c.roles[0]], ['backward', c.roles[1]]];
  if (data.ops.pass.includes(UPDATE))
    roles.push(['update', c.roles[2]]);
  roles.push(['recomputation', c.roles[3]]);
  if (lanes.hasCopies())
    roles.push(['to the host', c.out], ['from the host', c.in]);
  $('lane-legend').replaceChildren(...roles.map(([label, color]) => {
    const swatch = element('i');
    swatch.style.background = color;
    return element('span', {}, swatch, label);
  }));
}
