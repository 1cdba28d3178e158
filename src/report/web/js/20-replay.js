/*
 * A plan replayed: which storage is live when, what each step computes or moves, and memory by kind
 * and by layer. Typed arrays throughout; a plan of 100,000 ops takes some tens of milliseconds.
 *
 * A step's extent on the time axis is that of the compute stream: from the end of the step before to
 * its own end, waiting included. A transfer is issued at a moment, and so is a free that need not
 * wait: their extent is empty, but they count in every aggregate.
 */
const FORWARD = 0, BACKWARD = 1, UPDATE = 2, AGAIN = 3, NOT_COMPUTED = 4;
const COMPUTE = 99, IN_PLACE = 105, FREE = 102, OFFLOAD = 111, PREFETCH = 112; /* letters */

const graph = (function indexGraph() {
  const ops = data.ops, values = data.values;
  const layerOf = new Int32Array(values.root.length).fill(-1); /* of a storage */
  for (let op = 0; op < ops.name.length; op++) {
    for (const value of ops.outputs[op])
      if (layerOf[values.root[value]] < 0)
        layerOf[values.root[value]] = ops.layer[op];
    for (const value of ops.inputs[op]) /* parameters and state: the first layer that reads them */
      if (layerOf[value] < 0 && values.op[value] < 0 && values.class[value] !== OTHER)
        layerOf[value] = ops.layer[op];
  }
  const isOutput = new Uint8Array(values.root.length);
  for (const value of data.outputs)
    isOutput[values.root[value]] = 1;
  return {layerOf, isOutput};
})();

const variantTime = (op, variant) =>
  data.ops.variants[op] ? data.ops.variants[op][variant][0] : data.ops.time[op];
const variantWorkspace = (op, variant) =>
  data.ops.variants[op] ? data.ops.variants[op][variant][1] : data.ops.workspace[op];

/* A list of integers that grows. */
class Ints {
  constructor() {
    this.items = new Int32Array(1024);
    this.length = 0;
  }

  push(item) {
    if (this.length === this.items.length) {
      const larger = new Int32Array(2 * this.length);
      larger.set(this.items);
      this.items = larger;
    }
    this.items[this.length++] = item;
  }

  done() {
    return this.items.slice(0, this.length);
  }
}

/* The storages live while the steps of a plan run. */
class Residency {
  constructor(plan) {
    this.holders = new Int32Array(data.values.root.length);
    this.instance = new Int32Array(data.values.root.length).fill(-1);
    this.storage = new Ints();
    this.from = new Ints();
    this.to = new Ints();
    this.byKind = new Float64Array(data.kinds.length);
    this.byKind[OTHER] = data.fixed_bytes;
    this.byLayer = new Float64Array(data.layers.length + 1); /* the last: of no layer */
    this.byLayer[data.layers.length] = data.fixed_bytes;
    const away = new Set(plan.host_at_start);
    for (let value = 0; value < data.values.op.length; value++)
      if (data.values.op[value] < 0 && !away.has(value))
        this.hold(value, 0);
  }

  add(storage, bytes) {
    const layer = graph.layerOf[storage];
    this.byKind[data.values.class[storage]] += bytes;
    this.byLayer[layer < 0 ? data.layers.length : layer] += bytes;
  }

  begin(storage, step) {
    this.instance[storage] = this.storage.length;
    this.storage.push(storage);
    this.from.push(step);
    this.to.push(0x7fffffff);
    this.add(storage, data.values.bytes[storage]);
  }

  end(storage, step) {
    this.to.items[this.instance[storage]] = step;
    this.add(storage, -data.values.bytes[storage]);
  }

  hold(value, step) {
    const storage = data.values.root[value];
    if (this.holders[storage]++ === 0)
      this.begin(storage, step);
  }

  letGo(value, step) {
    const storage = data.values.root[value];
    if (--this.holders[storage] === 0)
      this.end(storage, step);
  }

  compute(op, step, inPlace) {
    const pair = inPlace ? data.ops.in_place[op] : null;
    if (pair) {
      const storage = data.values.root[pair[0]];
      this.holders[storage] = 0;
      this.end(storage, step);
      this.hold(pair[1], step);
    }
    for (const value of data.ops.outputs[op])
      if (!pair || value !== pair[1])
        this.hold(value, step);
  }
}

/* The index of the largest item of any range, in logarithmic time. */
class Maxima {
  constructor(items) {
    this.items = items;
    this.levels = [];
    for (let size = items.length, below = null; size > 1;) {
      const next = Math.ceil(size / 8), level = new Int32Array(next);
      for (let i = 0; i < next; i++) {
        let best = below ? below[8 * i] : 8 * i;
        for (let j = 8 * i + 1; j < Math.min(size, 8 * i + 8); j++) {
          const at = below ? below[j] : j;
          if (items[at] > items[best])
            best = at;
        }
        level[i] = best;
      }
      this.levels.push(below = level);
      size = next;
    }
  }

  /* In [from, to), which must not be empty: the first of the largest. */
  largest(from, to) {
    let best = from, level = -1;
    const items = this.items;
    const take = i => {
      const at = level < 0 ? i : this.levels[level][i];
      if (items[at] > items[best] || (items[at] === items[best] && at < best))
        best = at;
    };
    while (from < to) {
      while (from < to && from % 8 !== 0)
        take(from++);
      while (from < to && to % 8 !== 0)
        take(--to);
      from /= 8;
      to /= 8;
      level++;
    }
    return best;
  }
}

/* The first index at which `items` (ascending) reaches `least`. */
function lowerBound(items, least) {
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (items[middle] < least)
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

const TOP_LAYERS = 8;

class Replay {
  constructor(plan) {
    const count = plan.steps.kind.length;
    this.plan = plan;
    this.count = count;
    this.live = plan.steps.live;
    this.ids = plan.steps.id;
    this.letter = new Uint8Array(count);
    this.role = new Uint8Array(count); /* FORWARD ... NOT_COMPUTED */
    this.t0 = new Float64Array(count);
    this.t1 = new Float64Array(count);
    this.kinds = data.kinds.map(() => new Float64Array(count));
    this.agreed = true; /* the kinds add up to the bytes of the data */
    this.readClock();
    this.readMemory();
    this.maxima = new Maxima(this.live);
    this.peak = count > 0 ? this.maxima.largest(0, count) : 0;
    this.span = count > 0 ? Math.max(this.t1[count - 1], plan.time) : plan.time;
  }

  readClock() {
    const {kind, begin, end, id} = this.plan.steps;
    const seen = new Uint8Array(data.ops.name.length);
    let clock = 0;
    for (let k = 0; k < this.count; k++) {
      const letter = this.letter[k] = kind.charCodeAt(k);
      this.t0[k] = clock;
      if (letter !== OFFLOAD && letter !== PREFETCH)
        clock = Math.max(clock, end[k]);
      this.t1[k] = clock;
      this.role[k] = NOT_COMPUTED;
      if (letter === COMPUTE || letter === IN_PLACE) {
        this.role[k] = seen[id[k]] ? AGAIN : data.ops.pass[id[k]];
        seen[id[k]] = 1;
      }
    }
    this.begin = begin;
    this.end = end;
  }

  readMemory() {
    const r = new Residency(this.plan), {id, variant} = this.plan.steps;
    const most = r.byLayer.slice();
    for (let k = 0; k < this.count; k++) {
      const letter = this.letter[k];
      let workspace = 0;
      if (letter === COMPUTE || letter === IN_PLACE) {
        r.compute(id[k], k, letter === IN_PLACE);
        workspace = variantWorkspace(id[k], variant[k]);
        for (const value of data.ops.outputs[id[k]])
          noteMost(most, r, graph.layerOf[data.values.root[value]]);
      } else if (letter === PREFETCH) {
        r.hold(id[k], k);
      }
      let total = 0;
      for (let kind = 0; kind < this.kinds.length; kind++)
        total += this.kinds[kind][k] = r.byKind[kind];
      this.kinds[WORKSPACE][k] += workspace;
      if (total + workspace !== this.live[k])
        this.agreed = false;
      if (letter === FREE)
        r.letGo(id[k], k + 1);
    }
    this.storage = r.storage.done();
    this.from = r.from.done();
    this.to = r.to.done();
    this.mostOfLayer = most;
  }

  /* Memory of the largest layers, then of all others: made when first asked for. */
  get layers() {
    if (!this.madeLayers)
      this.madeLayers = this.readLayers();
    return this.madeLayers;
  }

  readLayers() {
    const order = Array.from(data.layers.keys());
    order.sort((a, b) => this.mostOfLayer[b] - this.mostOfLayer[a] || a - b);
    const top = order.slice(0, TOP_LAYERS).filter(layer => this.mostOfLayer[layer] > 0);
    const row = new Int32Array(data.layers.length + 1).fill(top.length);
    top.forEach((layer, i) => { row[layer] = i; });
    const change = Array.from({length: top.length + 1}, () => new Float64Array(this.count + 1));
    change[top.length][0] += data.fixed_bytes;
    for (let i = 0; i < this.storage.length; i++) {
      const layer = graph.layerOf[this.storage[i]], bytes = data.values.bytes[this.storage[i]];
      const band = change[layer < 0 ? top.length : row[layer]];
      band[this.from[i]] += bytes;
      if (this.to[i] < this.count)
        band[this.to[i]] -= bytes;
    }
    for (const band of change)
      for (let k = 1; k < this.count; k++)
        band[k] += band[k - 1];
    for (let k = 0; k < this.count; k++)
      if (this.role[k] !== NOT_COMPUTED)
        change[row[data.ops.layer[this.ids[k]]]][k] += this.kinds[WORKSPACE][k];
    return {top, bands: change, row};
  }

  /* The steps that read each storage, ascending: reader[first[s] .. first[s + 1]). */
  get reads() {
    if (!this.madeReads)
      this.madeReads = this.readReads();
    return this.madeReads;
  }

  readReads() {
    const first = new Int32Array(data.values.root.length + 1);
    const visit = act => {
      for (let k = 0; k < this.count; k++)
        if (this.role[k] !== NOT_COMPUTED)
          for (const value of data.ops.inputs[this.ids[k]])
            act(data.values.root[value], k);
    };
    visit(storage => { first[storage + 1]++; });
    for (let s = 0; s < data.values.root.length; s++)
      first[s + 1] += first[s];
    const next = first.slice(), step = new Int32Array(first[first.length - 1]);
    visit((storage, k) => { step[next[storage]++] = k; });
    return {first, step};
  }

  /* The first step from k on that reads a live storage while it lasts, which is until the step `end`; -1 if
     none does. An op that takes the storage over ends it, and reads it. */
  nextRead(storage, k, end) {
    const {first, step} = this.reads;
    const last = this.takesOver(end, storage) ? end : end - 1;
    for (let i = first[storage]; i < first[storage + 1]; i++)
      if (step[i] >= k)
        return step[i] <= last ? step[i] : -1;
    return -1;
  }

  takesOver(k, storage) {
    return k < this.count && this.letter[k] === IN_PLACE &&
           data.values.root[data.ops.in_place[this.ids[k]][0]] === storage;
  }

  /* What is live during step k, the largest first: [{storage or -1, bytes, to, kind}]. */
  liveAt(k) {
    const found = [];
    for (let i = 0; i < this.storage.length; i++)
      if (this.from[i] <= k && k < this.to[i] && data.values.bytes[this.storage[i]] > 0)
        found.push({storage: this.storage[i], bytes: data.values.bytes[this.storage[i]],
                    from: this.from[i], to: this.to[i], kind: data.values.class[this.storage[i]]});
    if (this.kinds[WORKSPACE][k] > 0)
      found.push({storage: -1, bytes: this.kinds[WORKSPACE][k], from: k, to: k + 1, kind: WORKSPACE});
    if (data.fixed_bytes > 0)
      found.push({storage: -2, bytes: data.fixed_bytes, from: 0, to: this.count, kind: OTHER});
    return found.sort((a, b) => b.bytes - a.bytes);
  }
}

function noteMost(most, residency, layer) {
  if (layer >= 0 && residency.byLayer[layer] > most[layer])
    most[layer] = residency.byLayer[layer];
}

/* Replays are kept for the plans used last. */
const replays = new Map();

function replayOf(plan) {
  let replay = replays.get(plan);
  if (!replay) {
    replay = new Replay(plan);
    if (replays.size >= 6)
      for (const old of replays.keys())
        if (old !== storeAll) {
          replays.delete(old);
          break;
        }
  }
  replays.delete(plan);
  replays.set(plan, replay);
  return replay;
}
