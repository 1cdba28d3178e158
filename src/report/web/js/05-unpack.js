/*
 * Turns the data block of a report from its packed form (docs/report.md) into plain columns, in
 * place, and returns it: names as strings, times in seconds, ids and bytes instead of differences.
 */
function neapUnpack(data) {
  'use strict';
  const second = data.about.ticks_per_second;
  const ops = data.ops, values = data.values;
  const seconds = ticks => ticks / second;

  function unpackGraph() {
    const layers = data.layers.length;
    const nameOf = name => typeof name === 'string' ? name : data.layers[name % layers] + data.suffixes[Math.floor(name / layers)];
    ops.name = ops.name.map(nameOf);
    values.name = values.name.map(nameOf);
    ops.time = ops.ticks.map(seconds);
    ops.variantTicks = {};
    for (const op of Object.keys(ops.variants)) {
      ops.variantTicks[op] = ops.variants[op].map(variant => variant[0]);
      ops.variants[op] = ops.variants[op].map(variant => [seconds(variant[0]), variant[1]]);
    }
  }

  /* What an op takes in ticks, and its workspace. */
  const ticksOf = (op, variant) => ops.variantTicks[op] ? ops.variantTicks[op][variant] : ops.ticks[op];
  const workspaceOf = (op, variant) => ops.variants[op] ? ops.variants[op][variant][1] : ops.workspace[op];

  /* Ids are differences from the last op, or from the last value. */
  function unpackIds(steps, count) {
    const id = new Int32Array(count);
    let op = 0, value = 0;
    for (let i = 0; i < count; i++) {
      const computes = steps.kind[i] === 'c' || steps.kind[i] === 'i';
      id[i] = computes ? op += steps.id[i] : value += steps.id[i];
    }
    steps.id = id;
  }

  /* A step begins when the one before it has ended, unless it waits; a copy does not hold up the
     steps after it. */
  function unpackTimes(steps, count) {
    const begin = new Float64Array(count), end = new Float64Array(count);
    let clock = 0, copy = 0, wait = 0, waits = steps.waits[0];
    for (let i = 0; i < count; i++) {
      let waited = 0;
      if (wait < steps.waits.length && i === waits) {
        waited = steps.waits[wait + 1];
        wait += 2;
        waits += steps.waits[wait];
      }
      const kind = steps.kind[i];
      let from = clock + waited, to = from;
      if (kind === 'f')
        from = clock;
      else if (kind === 'o' || kind === 'p')
        to = from + steps.copies[copy++];
      else
        to = from + ticksOf(steps.id[i], steps.variant[i]);
      if (kind !== 'o' && kind !== 'p')
        clock = to;
      begin[i] = from / second;
      end[i] = to / second;
    }
    steps.begin = begin;
    steps.end = end;
  }

  function unpackBytes(steps, count, start) {
    const live = new Float64Array(count), after = new Float64Array(count);
    let bytes = start;
    for (let i = 0; i < count; i++) {
      live[i] = bytes + steps.grow[i];
      after[i] = bytes = live[i] - steps.drop[i];
    }
    steps.live = live;
    steps.after = after;
  }

  function unpackOffsets(offsets, steps) {
    const count = offsets.value.length;
    const value = new Int32Array(count), from = new Int32Array(count), to = new Int32Array(count);
    const bytes = new Float64Array(count);
    let v = 0, f = 0;
    for (let i = 0; i < count; i++) {
      v += offsets.value[i];
      f += offsets.from[i];
      value[i] = v;
      from[i] = f;
      to[i] = f + offsets.steps[i];
      bytes[i] = v >= 0 ? values.bytes[v] : workspaceOf(-1 - v, steps.variant[f]);
    }
    offsets.value = value;
    offsets.from = from;
    offsets.to = to;
    offsets.bytes = bytes;
  }

  unpackGraph();
  for (const plan of data.plans) {
    const steps = plan.steps, count = steps.kind.length;
    steps.variant = steps.variant || new Uint8Array(count);
    unpackIds(steps, count);
    unpackTimes(steps, count);
    unpackBytes(steps, count, plan.start_bytes);
    if (plan.offsets)
      unpackOffsets(plan.offsets, steps);
  }
  return data;
}
