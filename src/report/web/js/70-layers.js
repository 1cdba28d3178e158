/* The table by layer: what the plan keeps, recomputes and moves, and what that saves or costs. */

/* Rows at first, and how many more at a time: thousands of them take a browser seconds. */
const LAYER_ROWS = 200, MORE_ROWS = 1000;
const layerTable = {rows: [], sort: 'order', down: false, most: LAYER_ROWS};

/*
 * Counts one layer's share of a plan. Kept: bytes of the forward pass that a backward op finds in memory as
 * first computed. Recomputed: runs of ops beyond the first. Moved: bytes copied to the host.
 */
function readLayerRows() {
  const replay = state.replay, ops = data.ops, values = data.values;
  const rows = data.layers.map((_, layer) => (
    {layer, ops: 0, forward: 0, bytes: 0, kept: 0, runs: 0, extra: 0, moved: 0, again: 0, atPeak: 0}));
  for (let op = 0; op < ops.name.length; op++) {
    const row = rows[ops.layer[op]];
    row.ops++;
    if (ops.pass[op] === FORWARD) {
      row.forward += ops.time[op];
      for (const value of ops.outputs[op])
        if (values.root[value] === value)
          row.bytes += values.bytes[value];
    }
  }
  for (let k = 0; k < replay.count; k++) {
    const id = replay.ids[k];
    if (replay.role[k] === AGAIN) {
      const row = rows[ops.layer[id]];
      row.runs++;
      row.extra += replay.end[k] - replay.begin[k];
      for (const value of ops.outputs[id])
        row.again += values.root[value] === value ? values.bytes[value] : 0;
    } else if (replay.letter[k] === OFFLOAD) {
      const layer = graph.layerOf[values.root[id]];
      if (layer >= 0)
        rows[layer].moved += values.bytes[values.root[id]];
    }
  }
  countKept(rows);
  return rows;
}

function countKept(rows) {
  const replay = state.replay, ops = data.ops, values = data.values;
  const {first, step} = replay.reads;
  for (let i = 0; i < replay.storage.length; i++) {
    const storage = replay.storage[i], op = values.op[storage], layer = graph.layerOf[storage];
    if (layer < 0)
      continue;
    if (replay.from[i] <= replay.peak && replay.peak < replay.to[i])
      rows[layer].atPeak += values.bytes[storage];
    if (op < 0 || ops.pass[op] !== FORWARD || replay.role[replay.from[i]] !== FORWARD)
      continue;
    for (let r = first[storage]; r < first[storage + 1]; r++)
      if (step[r] >= replay.from[i] && replay.role[step[r]] === BACKWARD &&
          (step[r] < replay.to[i] || (step[r] === replay.to[i] &&
                                      replay.takesOver(step[r], storage)))) {
        rows[layer].kept += values.bytes[storage];
        break;
      }
  }
}

/* Time of recomputation for a gibibyte: how cheap it is not to keep a layer. */
const formatPrice = (seconds, bytes) => bytes > 0 ? ` (${formatTime(seconds / (bytes / 1024 ** 3))} per GiB)` : '';

function layerReason(row) {
  const reasons = [];
  if (row.runs > 0)
    reasons.push(`recomputed in ${formatTime(row.extra)}${row.again > 0
      ? `, so that ${formatBytes(row.again)} need not be kept${formatPrice(row.extra, row.again)}` : ''}`);
  if (row.moved > 0)
    reasons.push(`moved: ${formatBytes(row.moved)} wait on the host`);
  if (row.kept > 0 && (reasons.length === 0 || row.kept > 0.05 * row.bytes))
    reasons.push(`kept: the backward pass reads it; computing it again would take ${
      formatTime(row.forward)}${formatPrice(row.forward, row.bytes)}`);
  else if (row.kept > 0)
    reasons.push(`only ${formatBytes(row.kept)} kept`);
  if (reasons.length === 0)
    reasons.push(row.bytes > 0 ? 'freed after its last use' : 'makes no activations');
  const text = reasons.join('; ');
  return text[0].toUpperCase() + text.slice(1);
}

function layerVerdict(row) {
  const words = [];
  if (row.kept > 0)
    words.push('kept');
  if (row.runs > 0)
    words.push('recomputed');
  if (row.moved > 0)
    words.push('moved');
  return words.length > 0 ? words.join(', ') : 'freed';
}

const LAYER_COLUMNS = [
  {key: 'order', label: 'layer', value: row => row.layer},
  {key: 'verdict', label: 'what happens', value: layerVerdict},
  {key: 'bytes', label: 'activations', value: row => row.bytes, bytes: true},
  {key: 'kept', label: 'kept', value: row => row.kept, bytes: true},
  {key: 'again', label: 'recomputed', value: row => row.again, bytes: true},
  ...(data.plans.some(plan => plan.offloaded_bytes > 0)
    ? [{key: 'moved', label: 'moved', value: row => row.moved, bytes: true}] : []),
  {key: 'atPeak', label: 'at the peak', value: row => row.atPeak, bytes: true},
  {key: 'extra', label: 'extra time', value: row => row.extra},
  {key: 'why', label: 'why', value: layerReason},
];

function sortLayers(key) {
  layerTable.down = layerTable.sort === key ? !layerTable.down : key !== 'order' && key !== 'why' &&
    key !== 'verdict';
  layerTable.sort = key;
  drawLayerTable();
}

function drawLayerHead() {
  const row = element('tr');
  for (const column of LAYER_COLUMNS) {
    const button = element('button', {type: 'button', 'data-sort': column.key}, column.label);
    button.addEventListener('click', () => sortLayers(column.key));
    row.append(element('th', {scope: 'col', class: column.bytes || column.key === 'extra' ? 'num' : null,
                              'data-column': column.key},
                       button, element('span', {class: 'label', 'aria-hidden': 'true'}, column.label)));
  }
  $('layer-table').replaceChildren(element('thead', {}, row), element('tbody'));
}

function drawLayers() {
  layerTable.rows = readLayerRows();
  const total = key => layerTable.rows.reduce((sum, row) => sum + row[key], 0);
  const parts = [`${formatBytes(total('kept'))} kept`];
  if (total('extra') > 0)
    parts.push(`${formatBytes(total('again'))} recomputed in ${formatTime(total('extra'))}`);
  if (state.plan.offloaded_bytes > 0)
    parts.push(`${formatBytes(state.plan.offloaded_bytes)} moved to the host`);
  $('layers-note').textContent = `${planLabel(state.plan)}: ${parts.join(', ')}.`;
  drawLayerTable();
}

function drawLayerTable() {
  const {rows, sort, down, most} = layerTable;
  const column = LAYER_COLUMNS.find(c => c.key === sort);
  const wanted = $('layer-search').value.trim().toLowerCase();
  const found = wanted ? rows.filter(row => clean(data.layers[row.layer]).toLowerCase()
                                     .includes(wanted) || layerVerdict(row).includes(wanted)) : rows.slice();
  const keys = new Map(found.map(row => [row, column.value(row)]));
  found.sort((a, b) => {
    const x = keys.get(a), y = keys.get(b);
    const order = typeof x === 'string' ? (x < y ? -1 : x > y ? 1 : 0) : x - y;
    return (down ? -order : order) || a.layer - b.layer;
  });
  const shown = found.slice(0, most);
  $('layer-table').tBodies[0].replaceChildren(...shown.map(layerRow));
  for (const head of $('layer-table').tHead.rows[0].cells)
    head.setAttribute('aria-sort', head.firstChild.dataset.sort !== sort ? 'none'
                                   : down ? 'descending' : 'ascending');
  $('layer-count').textContent = `${formatCount(shown.length)} of ${plural(rows.length, 'layer')}`;
  $('layer-all').hidden = shown.length === found.length;
  $('layer-all').textContent = found.length <= most + MORE_ROWS ? 'Show all' : `Show ${formatCount(MORE_ROWS)} more`;
}

function layerRow(row) {
  const cells = LAYER_COLUMNS.map(column => {
    const value = column.value(row);
    if (column.key === 'order')
      return element('th', {scope: 'row'}, nameElement(data.layers[row.layer], 44));
    if (column.bytes)
      return bytesElement(value, 'td', {class: value > 0 ? 'num' : 'num zero', 'data-column': column.key});
    if (column.key === 'extra')
      return element('td', {class: value > 0 ? 'num' : 'num zero', 'data-seconds': value},
                     formatTime(value));
    return element('td', {}, value);
  });
  return element('tr', {'data-layer': row.layer}, ...cells);
}
