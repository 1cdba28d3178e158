/*
 * The compute stream and the copy engines. A column of pixels is filled in proportion to what runs in
 * it, so that a short recomputation among thousands of ops still leaves its colour.
 */
class Lanes extends Chart {
  constructor() {
    super('lanes', 'Compute stream and copy engines');
    this.top = 4;
    this.bottom = 4;
    this.height = 8 + 30 * (this.hasCopies() ? 3 : 1);
    this.box.style.height = this.height + 'px';
  }

  hasCopies() {
    return data.plans.some(plan => plan.offloaded_bytes > 0 || plan.host_at_start.length > 0);
  }

  /* [{label, color or null, spans}]; a span list has begin, end and, for computations, role. */
  rows() {
    const rows = [{label: 'compute', spans: this.computeSpans()}];
    if (this.hasCopies())
      rows.push({label: 'copy out', color: colors().out, spans: this.copySpans(OFFLOAD)},
                {label: 'copy in', color: colors().in, spans: this.copySpans(PREFETCH)});
    return rows;
  }

  computeSpans() {
    return this.spans('compute', replay => {
      const step = new Ints();
      for (let k = 0; k < replay.count; k++)
        if (replay.role[k] !== NOT_COMPUTED)
          step.push(k);
      return step.done();
    });
  }

  copySpans(letter) {
    return this.spans(letter, replay => {
      const step = new Ints();
      for (let k = 0; k < replay.count; k++)
        if (replay.letter[k] === letter)
          step.push(k);
      return step.done();
    });
  }

  /* Made once for each plan and axis. On the axis of steps a copy lasts until the step that is
     under way when it ends. */
  spans(what, choose) {
    const replay = state.replay, key = what + state.axis;
    replay.spans = replay.spans || {};
    if (replay.spans[key])
      return replay.spans[key];
    const step = choose(replay), byTime = state.axis === 'time';
    const begin = new Float64Array(step.length), end = new Float64Array(step.length);
    for (let i = 0; i < step.length; i++) {
      const k = step[i];
      begin[i] = byTime ? replay.begin[k] : k;
      end[i] = byTime ? replay.end[k]
                      : what === 'compute' ? k + 1
                                           : Math.max(k + 1, lowerBound(replay.t1, replay.end[k]));
      if (i > 0 && !byTime && what !== 'compute')
        begin[i] = Math.max(begin[i], Math.min(end[i] - 1, end[i - 1]));
    }
    return replay.spans[key] = {step, begin, end};
  }

  draw(context, width) {
    const rows = this.rows(), c = colors();
    const height = (this.height - this.top - this.bottom) / rows.length;
    this.rowHeight = height;
    this.shownRows = rows;
    this.drawTimeAxis(context, width, false);
    rows.forEach((row, i) => {
      const y = this.top + i * height, h = height - 6;
      context.fillStyle = c.muted;
      context.textAlign = 'right';
      context.textBaseline = 'middle';
      context.fillText(row.label, LEFT - 8, y + height / 2);
      context.fillStyle = c.gap;
      context.fillRect(LEFT, y + 3, this.plotWidth(width), h);
      context.save();
      this.clip(context, width);
      this.drawRow(context, row, y + 3, h, width);
      context.restore();
    });
  }

  drawRow(context, row, y, height, width) {
    const {step, begin, end} = row.spans, c = colors(), role = state.replay.role;
    const first = lowerBound(end, state.from), last = lowerBound(begin, state.to);
    const pixels = this.plotWidth(width);
    if (last - first > pixels) {
      this.drawDense(context, row, first, last, y, height, width);
      return;
    }
    const gap = pixels / Math.max(1, last - first) > 6 ? 0.5 : 0;
    for (let i = first; i < last; i++) {
      const x0 = this.xOf(begin[i], width), x1 = this.xOf(end[i], width);
      context.fillStyle = row.color || c.roles[role[step[i]]];
      context.fillRect(x0, y, Math.max(x1 - x0 - gap, 0.6), height);
      if (x1 - x0 > 46)
        this.drawSpanName(context, row, step[i], Math.max(x0, LEFT), Math.min(x1, width - RIGHT), y,
                          height);
    }
  }

  drawSpanName(context, row, k, x0, x1, y, height) {
    const replay = state.replay, id = replay.ids[k], room = x1 - x0 - 8;
    if (room < 30)
      return;
    let name = row.color ? valueName(id) : opName(id);
    const letter = context.measureText('n').width;
    name = shorten(name, Math.max(3, Math.floor(room / letter)));
    context.save();
    context.beginPath();
    context.rect(x0, y, x1 - x0, height);
    context.clip();
    context.fillStyle = readableOn(context.fillStyle);
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(name, x0 + 4, y + height / 2 + 0.5);
    context.restore();
  }

  /* More spans than pixels: the share of each colour in each column. */
  drawDense(context, row, first, last, y, height, width) {
    const {step, begin, end} = row.spans, c = colors(), role = state.replay.role;
    const pixels = Math.round(this.plotWidth(width)), span = state.to - state.from;
    const share = [0, 1, 2, 3].map(() => new Float64Array(pixels));
    for (let i = first; i < last; i++) {
      const kind = row.color ? 0 : role[step[i]];
      const a = (begin[i] - state.from) / span * pixels, b = (end[i] - state.from) / span * pixels;
      const from = Math.max(0, Math.floor(a)), to = Math.min(pixels - 1, Math.floor(b));
      for (let x = from; x <= to; x++)
        share[kind][x] += Math.max(0, Math.min(b, x + 1) - Math.max(a, x));
    }
    if (state.axis === 'step' && !row.color) /* frees are steps, too, but take no time of the stream */
      for (let x = 0; x < pixels; x++) {
        const all = share[0][x] + share[1][x] + share[2][x] + share[3][x];
        if (all > 0)
          share.forEach(part => { part[x] /= all; });
      }
    const base = new Float64Array(pixels);
    for (const kind of [AGAIN, FORWARD, BACKWARD, UPDATE]) {
      context.fillStyle = row.color || c.roles[kind];
      for (let x = 0; x < pixels; x++) {
        const part = Math.min(1, share[kind][x]);
        if (part > 0)
          context.fillRect(LEFT + x, y + height * (1 - base[x] - part), 1, height * part);
        base[x] += part;
      }
    }
  }

  /* The span under a point; null if there is none. */
  spanAt(x, y) {
    const row = this.shownRows && this.shownRows[Math.floor((y - this.top) / this.rowHeight)];
    if (!row)
      return null;
    const {step, begin, end} = row.spans, at = this.atOf(x);
    const slack = (state.to - state.from) / this.plotWidth();
    let i = lowerBound(end, at);
    if (i < step.length && begin[i] <= at + slack)
      return {row, step: step[i]};
    return null;
  }

  tipAt(x, y) {
    const found = this.spanAt(x, y), replay = state.replay;
    if (!found)
      return momentTip(this.stepAtPixel(x));
    const k = found.step, id = replay.ids[k], took = replay.end[k] - replay.begin[k];
    if (found.row.color)
      return (replay.letter[k] === OFFLOAD ? 'to the host: ' : 'from the host: ') + valueName(id) +
             '\n' + formatBytes(data.values.bytes[data.values.root[id]]) + ' in ' + formatTime(took) +
             ', from ' + formatTime(replay.begin[k]) + ' to ' + formatTime(replay.end[k]);
    return 'step ' + formatCount(k) + ' ' + describeStep(replay, k) + '\n' + formatTime(took) +
           ', from ' + formatTime(replay.begin[k]) + ' to ' + formatTime(replay.end[k]);
  }

  pick(x, y) {
    const found = this.spanAt(x, y);
    return found ? found.step : this.stepAtPixel(x);
  }
}

/* Black or white, whichever is easier to read on a colour. */
function readableOn(color) {
  const rgb = parseInt(color.slice(1), 16);
  const channel = shift => {
    const part = (rgb >> shift & 0xff) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * channel(16) + 0.7152 * channel(8) + 0.0722 * channel(0);
  return light > 0.179 ? '#000000' : '#ffffff';
}
