/*
 * node check_report.js UNPACK.js REPORT.html: unpacks the data of a report as the page does, replays
 * every plan on its own account, and compares bytes, times and addresses. Prints what is wrong.
 */
'use strict';
const fs = require('fs');
const unpack = new Function(fs.readFileSync(process.argv[2], 'utf8') + '; return neapUnpack;')();
const html = fs.readFileSync(process.argv[3], 'utf8');
const open = '<script type="application/json" id="neap-data">';
const begin = html.indexOf(open) + open.length;
const data = unpack(JSON.parse(html.slice(begin, html.indexOf('</script>', begin))));
const { ops, values } = data;
const WORKSPACE = 4, OTHER = 5;
let faults = 0;

function expect(plan, what, found, wanted) {
  if (Math.abs(found - wanted) <= 1e-12 * Math.abs(wanted))
    return;
  faults++;
  console.log(`${plan.id}: ${what} is ${found}, not ${wanted}`);
}

/* What is resident, and the bytes of each kind. */
class Memory {
  constructor(hostAtStart) {
    this.holders = new Int32Array(values.bytes.length);
    this.kinds = new Float64Array(data.kinds.length);
    this.kinds[OTHER] = data.fixed_bytes;
    const away = new Set(hostAtStart);
    values.op.forEach((op, value) => op < 0 && !away.has(value) && this.enter(value));
  }
  enter(value) {
    const root = values.root[value];
    if (this.holders[root]++ === 0)
      this.kinds[values.class[root]] += values.bytes[root];
  }
  leave(value) {
    const root = values.root[value];
    if (--this.holders[root] === 0)
      this.kinds[values.class[root]] -= values.bytes[root];
  }
  get bytes() {
    return this.kinds.reduce((sum, bytes) => sum + bytes, 0);
  }
}

function run(memory, resident, kind, id) {
  const enter = value => resident.has(value) || (resident.add(value), memory.enter(value));
  const leave = value => { resident.delete(value); memory.leave(value); };
  if (kind === 'c' || kind === 'i') {
    const [input, output] = kind === 'i' ? ops.in_place[id] : [-1, -1];
    ops.outputs[id].forEach(value => value !== output && enter(value));
    if (kind === 'i') {
      leave(input);
      enter(output);
    }
  } else if (kind === 'f') {
    leave(id);
  } else if (kind === 'p') {
    enter(id);
  }
}

function checkPlan(plan) {
  const { steps } = plan, count = steps.kind.length;
  const memory = new Memory(plan.host_at_start), away = new Set(plan.host_at_start);
  const resident = new Set(values.op.map((op, value) => op < 0 && !away.has(value) ? value : -1));
  let end = 0;
  for (let i = 0; i < count; i++) {
    const kind = steps.kind[i], id = steps.id[i], before = memory.bytes;
    const computes = kind === 'c' || kind === 'i';
    const variants = computes && ops.variants[id];
    const workspace = variants ? variants[steps.variant[i]][1] : computes ? ops.workspace[id] : 0;
    const time = variants ? variants[steps.variant[i]][0] : computes ? ops.time[id] : 0;
    run(memory, resident, kind, id);
    expect(plan, `live of step ${i}`, steps.live[i], Math.max(before, memory.bytes) + workspace);
    expect(plan, `after of step ${i}`, steps.after[i], memory.bytes);
    if (computes)
      expect(plan, `end of step ${i}`, steps.end[i], steps.begin[i] + time);
    end = Math.max(end, steps.end[i]);
    if (i === plan.peak_step && computes) {
      memory.kinds[WORKSPACE] = workspace;
      plan.parts.forEach((bytes, part) => expect(plan, data.kinds[part], bytes, memory.kinds[part]));
      memory.kinds[WORKSPACE] = 0;
    }
  }
  data.outputs.forEach(value => expect(plan, `output ${value}`, Number(resident.has(value)), 1));
  expect(plan, 'time', end, plan.time);
  expect(plan, 'peak', steps.live.reduce((most, bytes) => Math.max(most, bytes), 0), plan.peak_bytes);
  if (plan.offsets)
    checkAddresses(plan);
}

/* No two instances overlap while both are there. */
function checkAddresses(plan) {
  const { value, offset, bytes, from, to } = plan.offsets;
  let top = 0;
  for (let i = 0; i < value.length; i++) {
    top = Math.max(top, offset[i] + bytes[i]);
    for (let j = 0; j < i; j++)
      if (from[i] < to[j] && from[j] < to[i] && offset[i] < offset[j] + bytes[j] && offset[j] < offset[i] + bytes[i])
        expect(plan, `overlap of instances ${i} and ${j}`, 1, 0);
  }
  expect(plan, 'arena', top, plan.arena_bytes);
}

data.plans.forEach(checkPlan);
for (const point of data.curve ? data.curve.points : [])
  if (point.plan !== null)
    expect(data.plans[point.plan], 'overhead of its point', point.overhead, data.plans[point.plan].overhead);
process.exit(faults > 0 ? 1 : 0);
