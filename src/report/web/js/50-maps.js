/* Two maps over the same axis: when each op runs, and where in the arena each storage lies. */

class OpsMap extends Chart {
  constructor() {
    super('ops', 'When each op runs: ops in natural order, from top to bottom');
    this.top = 6;
    this.bottom = 24;
  }

  draw(context, width) {
    const replay = state.replay, c = colors(), count = data.ops.name.length;
    const raster = scaleRaster(this, width);
    const across = raster.width / (state.to - state.from), down = raster.height / Math.max(count, 1);
    const thick = Math.max(down, 2 * this.ratio), thin = Math.max(1, this.ratio);
    const paint = c.roles.map(pixelOf);
    const [first, last] = stepsIn(replay, state.from, state.to, state.to >= wholeSpan());
    for (let again = 0; again < 2; again++) /* recomputations on top */
      for (let k = first; k < last; k++) {
        const role = replay.role[k];
        if (role === NOT_COMPUTED || (role === AGAIN) !== (again === 1))
          continue;
        const begin = state.axis === 'time' ? replay.begin[k] : k;
        const end = state.axis === 'time' ? replay.end[k] : k + 1;
        const x0 = (begin - state.from) * across, y = replay.ids[k] * down;
        raster.rectangle(x0, y, Math.max((end - state.from) * across, x0 + thin), y + thick,
                         paint[role]);
      }
    this.drawTimeAxis(context, width, true);
    this.blend(context);
    this.drawOpAxis(context, count);
  }

  /* Raster over the grid that is there already. */
  blend(context) {
    if (!this.sheet || this.sheet.width !== this.raster.width ||
        this.sheet.height !== this.raster.height)
      this.sheet = element('canvas', {width: this.raster.width, height: this.raster.height});
    this.sheet.getContext('2d').putImageData(this.raster.image, 0, 0);
    context.drawImage(this.sheet, LEFT, this.top, this.raster.width / this.ratio,
                      this.raster.height / this.ratio);
  }

  drawOpAxis(context, count) {
    const c = colors(), height = this.height - this.top - this.bottom;
    let forward = 0; /* ops before the first backward op */
    while (forward < count && data.ops.pass[forward] === FORWARD)
      forward++;
    context.fillStyle = c.muted;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const tick of roundTicks(0, count, 5).ticks)
      if (tick === Math.round(tick) && tick < count)
        context.fillText('op ' + formatCount(tick), LEFT - 8,
                         Math.max(this.top + 6, this.top + tick / count * height));
    if (forward > 0 && forward < count) {
      const y = Math.round(this.top + forward / count * height) + 0.5;
      context.strokeStyle = c.line;
      context.beginPath();
      context.moveTo(LEFT, y);
      context.lineTo(this.box.clientWidth - RIGHT, y);
      context.stroke();
      context.textAlign = 'left';
      context.fillText('forward ↑  backward ↓', LEFT + 6, y + 9);
    }
  }

  /* The computation nearest to a point, within a few pixels; -1 if there is none. */
  computationAt(x, y) {
    const replay = state.replay, count = data.ops.name.length;
    const height = this.height - this.top - this.bottom;
    const [first, last] = stepsIn(replay, this.atOf(x - 5), this.atOf(x + 5), false);
    let best = -1, least = Math.max(6, height / count) ** 2;
    for (let k = first; k < last; k++) {
      if (replay.role[k] === NOT_COMPUTED)
        continue;
      const x0 = this.xOf(beginOf(replay, k)), x1 = this.xOf(endOf(replay, k));
      const dx = Math.max(x0 - x, 0, x - x1);
      const dy = this.top + (replay.ids[k] + 0.5) / count * height - y;
      if (dx * dx + dy * dy < least) {
        least = dx * dx + dy * dy;
        best = k;
      }
    }
    return best;
  }

  tipAt(x, y) {
    const k = this.computationAt(x, y), replay = state.replay;
    if (k < 0)
      return '';
    return opName(replay.ids[k]) + (replay.role[k] === AGAIN ? ' (recomputed)' : '') + '\nop ' +
           formatCount(replay.ids[k]) + ', step ' + formatCount(k) + ', ' +
           formatTime(replay.end[k] - replay.begin[k]) + ' at ' + formatTime(replay.begin[k]);
  }

  pick(x, y) {
    const k = this.computationAt(x, y);
    return k < 0 ? this.stepAtPixel(x) : k;
  }
}

class ArenaMap extends Chart {
  constructor() {
    super('arena', 'Addresses in the arena over the training step');
    this.top = 6;
    this.bottom = 24;
  }

  get offsets() {
    return state.plan.offsets;
  }

  draw(context, width) {
    const offsets = this.offsets, c = colors();
    if (!offsets)
      return;
    this.most = Math.max(state.plan.arena_bytes || 0, 1);
    const raster = scaleRaster(this, width), replay = state.replay;
    raster.pixels.fill(pixelOf(c.gap));
    const across = raster.width / (state.to - state.from), up = raster.height / this.most;
    const paint = this.paint(), rim = 0.45 * this.ratio;
    for (let i = 0; i < offsets.value.length; i++) {
      const last = Math.min(offsets.to[i], replay.count) - 1;
      if (last < offsets.from[i])
        continue;
      const begin = beginOf(replay, offsets.from[i]), end = endOf(replay, last);
      if (end < state.from || begin > state.to)
        continue;
      const x0 = (begin - state.from) * across, x1 = (end - state.from) * across;
      const y0 = raster.height - (offsets.offset[i] + offsets.bytes[i]) * up;
      const y1 = raster.height - offsets.offset[i] * up;
      const tall = y1 - y0 > 5 * this.ratio && x1 - x0 > 3; /* a thin line between neighbours */
      raster.rectangle(x0, Math.round(y0) + (tall ? rim : 0), Math.max(x1 - (tall ? rim : 0), x0 + 1),
                       Math.max(Math.round(y1), Math.round(y0) + (y1 - y0 > 0.3 ? 1 : 0)), paint(i));
    }
    this.drawTimeAxis(context, width, true);
    putRaster(this, context);
    this.drawAddressAxis(context);
  }

  /* The colour of an instance: by kind or by layer, as in the timeline. */
  paint() {
    const c = colors(), value = this.offsets.value;
    const layerOf = v => v < 0 ? data.ops.layer[-1 - v] : graph.layerOf[v];
    if (state.stack === 'kind') {
      const kinds = c.kinds.map(pixelOf);
      return i => kinds[value[i] < 0 ? WORKSPACE : data.values.class[value[i]]];
    }
    const layers = c.layers.map(pixelOf), {top, row} = state.replay.layers;
    return i => {
      const layer = layerOf(value[i]), at = layer < 0 ? top.length : row[layer];
      return layers[at === top.length ? TOP_LAYERS : at];
    };
  }

  drawAddressAxis(context) {
    const c = colors(), height = this.height - this.top - this.bottom;
    context.fillStyle = c.muted;
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const tick of byteTicks(this.most, 4))
      context.fillText(tick.label, LEFT - 8, this.height - this.bottom - tick.at / this.most * height);
  }

  instanceAt(x, y) {
    const offsets = this.offsets, k = offsets ? this.stepAtPixel(x) : 0;
    if (!offsets || x < LEFT)
      return -1;
    const height = this.height - this.top - this.bottom;
    const at = (this.height - this.bottom - y) / height * this.most;
    for (let i = 0; i < offsets.value.length; i++)
      if (offsets.from[i] <= k && k < offsets.to[i] && offsets.offset[i] <= at &&
          at < offsets.offset[i] + offsets.bytes[i])
        return i;
    return -1;
  }

  tipAt(x, y) {
    const i = this.instanceAt(x, y), offsets = this.offsets;
    if (!offsets)
      return '';
    if (i < 0)
      return 'free at this moment';
    const value = offsets.value[i];
    return (value < 0 ? 'workspace of ' + opName(-1 - value) : valueName(value)) + '\n' +
           formatBytes(offsets.bytes[i]) + ' at address ' + formatCount(offsets.offset[i]) +
           '\nfrom step ' + formatCount(offsets.from[i]) + ' until step ' +
           formatCount(Math.min(offsets.to[i], state.replay.count));
  }

  pick(x) {
    return this.stepAtPixel(x);
  }
}

/* Bytes of the arena that nothing can use at the plan's peak: what addresses cost. */
function describeMaps() {
  const plan = state.plan, replay = state.replay;
  let again = 0, extra = 0;
  for (let k = 0; k < replay.count; k++)
    if (replay.role[k] === AGAIN) {
      again++;
      extra += replay.end[k] - replay.begin[k];
    }
  $('ops-note').textContent = again === 0
    ? `Each of the ${plural(data.ops.name.length, 'op')} runs once. Natural order is from top to bottom.`
    : `${plural(data.ops.name.length, 'op')} in natural order from top to bottom; ${
      plural(again, 'recomputation')} in colour, ${formatTime(extra)} together.`;
  $('arena-part').hidden = !plan.offsets;
  if (plan.offsets) {
    const lost = plan.arena_bytes - plan.peak_bytes;
    $('arena-note').textContent = `Every tensor has an address in one block of ${
      formatBytes(plan.arena_bytes)}; ${lost > 0
      ? `gaps cost ${formatBytes(lost)} beyond the peak.` : 'at the peak nothing is lost to gaps.'}`;
  }
}
