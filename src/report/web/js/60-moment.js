/* The panel beside the charts: what is live at the moment selected, why, and the peak explained. */

const LIVE_ROWS = 25, MOST_LIVE_ROWS = 1000;
let showAllLive = false, momentAsked = false;

function showMoment() {
  if (!momentAsked) {
    momentAsked = true;
    requestAnimationFrame(() => {
      momentAsked = false;
      drawMoment();
    });
  }
}

function describeMoment() {
  const replay = state.replay, k = state.step;
  const time = formatTime(replay.begin[k]);
  const peak = k === replay.peak ? ', the peak' : '';
  const largest = replay.liveAt(k)[0];
  return `Step ${formatCount(k)} of ${formatCount(replay.count)}, at ${time}: ${
    describeStep(replay, k)}. ${formatBytes(replay.live[k])} live${peak}.` +
    (largest ? ` Largest: ${liveName(largest, k)}, ${formatBytes(largest.bytes)}.` : '');
}

function liveName(item, k) {
  if (item.storage === -1)
    return 'workspace of ' + opName(state.replay.ids[k]);
  return item.storage === -2 ? 'fixed memory' : valueName(item.storage);
}

/* Why it is in memory: who needs it next. */
function reasonOf(item, k) {
  const replay = state.replay, id = replay.ids[k];
  if (item.storage === -1)
    return 'only while the op runs';
  if (item.storage === -2)
    return 'always in use';
  const computes = replay.role[k] !== NOT_COMPUTED;
  if (computes && data.ops.outputs[id].some(value => data.values.root[value] === item.storage))
    return 'being computed';
  if (computes && data.ops.inputs[id].some(value => data.values.root[value] === item.storage))
    return 'read now';
  const next = replay.nextRead(item.storage, k, item.to);
  const resident = data.values.op[item.storage] < 0 && item.to > replay.count;
  if (next >= 0)
    return `next read by ${opName(replay.ids[next])} in ${
      formatTime(Math.max(0, replay.begin[next] - replay.begin[k]))}` +
      (replay.role[next] === AGAIN ? ' (a recomputation)' : '');
  if (resident)
    return 'resident throughout the step';
  if (graph.isOutput[item.storage] && item.to > replay.count)
    return 'a result of the step';
  return 'not read again; freed at step ' + formatCount(item.to - 1);
}

function drawMoment() {
  const replay = state.replay, k = state.step;
  if (replay.count === 0)
    return;
  const bytes = replay.live[k];
  $('moment-title').replaceChildren(k === replay.peak ? 'Live at the peak' : 'Live at this moment',
    element('span', {class: 'pin'}, state.pinned ? 'kept' : ''));
  $('when').replaceChildren(`Step ${formatCount(k)} of ${formatCount(replay.count)}, at ${
    formatTime(replay.begin[k])}: `, element('bdi', {}, describeStep(replay, k)));
  $('when').dataset.step = k;
  $('live-bytes').replaceChildren(bytesElement(bytes));
  $('live-share').textContent = `${formatPercent(bytes / replay.plan.peak_bytes)} of the peak`;
  drawParts(k);
  drawLiveTable(replay.liveAt(k), k);
  $('why').hidden = !state.explain;
  if (state.explain)
    $('why').textContent = explainPeak();
  setAttributes(timeline.box, {'aria-valuenow': k,
    'aria-valuetext': `step ${formatCount(k)} of ${formatCount(replay.count)}`});
}

function drawParts(k) {
  const replay = state.replay, c = colors(), bar = $('live-parts'), texts = [];
  bar.replaceChildren();
  for (const name of ['parameters', 'state', 'other', 'gradients', 'activations', 'workspace']) {
    const kind = data.kinds.indexOf(name);
    if (kind < 0)
      continue;
    const bytes = replay.kinds[kind][k];
    bar.dataset[name] = bytes;
    if (bytes > 0) {
      const part = element('i', {title: kindName(kind) + ': ' + formatBytes(bytes)});
      part.style.background = c.kinds[kind];
      part.style.width = 100 * bytes / replay.live[k] + '%';
      bar.append(part);
      texts.push(kindName(kind) + ' ' + formatBytes(bytes));
    }
  }
  bar.setAttribute('aria-label', texts.join(', '));
}

function drawLiveTable(items, k) {
  const wanted = $('live-search').value.trim().toLowerCase(), total = state.replay.live[k];
  const wholeName = item => item.storage >= 0 ? clean(data.values.name[item.storage])
                                              : liveName(item, k);
  const found = wanted ? items.filter(item => wholeName(item).toLowerCase().includes(wanted)) : items;
  const shown = found.slice(0, showAllLive ? MOST_LIVE_ROWS : LIVE_ROWS);
  const c = colors(), rows = shown.map(item => {
    const swatch = element('i');
    swatch.style.background = c.kinds[item.kind];
    const name = item.storage >= 0 ? nameElement(data.values.name[item.storage], 27)
                                   : element('bdi', {}, liveName(item, k));
    return [element('tr', {'data-storage': item.storage},
      element('td', {}, swatch, name),
      bytesElement(item.bytes, 'td', {class: 'num'}),
      element('td', {class: 'num'}, formatPercent(item.bytes / total))),
    element('tr', {}, element('td', {colspan: 3, class: 'next'}, reasonOf(item, k)))];
  });
  $('live-table').tBodies[0].replaceChildren(...rows.flat());
  const sum = found.reduce((bytes, item) => bytes + item.bytes, 0);
  $('live-count').textContent = `${formatCount(shown.length)} of ${plural(found.length, 'tensor')}` +
    (wanted ? `, ${formatBytes(sum)} together` : '');
  $('live-all').hidden = shown.length === found.length && !showAllLive;
  $('live-all').textContent = showAllLive ? 'Show fewer' : found.length > MOST_LIVE_ROWS
    ? `Show the largest ${formatCount(MOST_LIVE_ROWS)}` : 'Show all';
}

/* The peak in words: the op, what fills the memory, and who needs the largest parts. */
function explainPeak() {
  const replay = state.replay, k = replay.peak, plan = replay.plan;
  const kinds = data.kinds.map((_, kind) => kind).filter(kind => replay.kinds[kind][k] > 0.005 * replay.live[k]);
  kinds.sort((a, b) => replay.kinds[b][k] - replay.kinds[a][k]);
  const share = kind => `${formatPercent(replay.kinds[kind][k] / replay.live[k])} ${kindName(kind)}`;
  const items = replay.liveAt(k);
  const waiting = items.filter(item => item.storage >= 0 && data.values.op[item.storage] >= 0 &&
                                       isWaiting(item, k) &&
                                       replay.nextRead(item.storage, k, item.to) >= 0);
  const bytes = waiting.reduce((sum, item) => sum + item.bytes, 0);
  let text = `The step needs most memory, ${formatBytes(replay.live[k])}, when it ${
    describeStep(replay, k)}: ${kinds.slice(0, 3).map(share).join(', ')}.`;
  if (waiting.length > 0)
    text += ` ${formatBytes(bytes)} in ${plural(waiting.length, 'tensor')} ${
      waiting.length === 1 ? 'is' : 'are'} not used by this op but needed later: the largest, ${
      valueName(waiting[0].storage)} (${formatBytes(waiting[0].bytes)}), is ${
      reasonOf(waiting[0], k)}.`;
  if (plan.budget_bytes)
    text += plan.budget_bytes >= replay.live[k]
      ? ` That leaves ${formatBytes(plan.budget_bytes - replay.live[k])} of the budget.`
      : ` That is ${formatBytes(replay.live[k] - plan.budget_bytes)} beyond the budget.`;
  const op = data.about.floor_op;
  if (data.about.floor_bytes && op !== null && op !== undefined)
    text += ` No plan needs less than ${formatBytes(data.about.floor_bytes)}: ${
      opName(op)} alone takes that much.`;
  return text;
}

/* Live, but neither read nor written by step k. */
function isWaiting(item, k) {
  const replay = state.replay;
  if (replay.role[k] === NOT_COMPUTED)
    return true;
  const uses = value => data.values.root[value] === item.storage;
  return !data.ops.inputs[replay.ids[k]].some(uses) && !data.ops.outputs[replay.ids[k]].some(uses);
}

/* ---- The steps as a table, a page at a time ---- */

const STEPS_A_PAGE = 100;
let stepsPage = 0;

function drawStepsTable() {
  if (!$('memory-data').open)
    return;
  const replay = state.replay, pages = Math.max(1, Math.ceil(replay.count / STEPS_A_PAGE));
  stepsPage = Math.max(0, Math.min(stepsPage, pages - 1));
  const heads = ['step', 'what it does', 'begins', 'ends', 'live', ...data.kinds.map((_, i) =>
    kindName(i))];
  const head = element('thead', {}, element('tr', {}, ...heads.map((text, i) =>
    element('th', {scope: 'col', class: i === 1 ? null : 'num'}, text))));
  const body = element('tbody');
  const last = Math.min(replay.count, (stepsPage + 1) * STEPS_A_PAGE);
  for (let k = stepsPage * STEPS_A_PAGE; k < last; k++)
    body.append(element('tr', {'aria-current': k === state.step ? 'true' : null},
      element('td', {class: 'num'}, formatCount(k)),
      element('td', {}, element('bdi', {}, describeStep(replay, k))),
      element('td', {class: 'num'}, formatTime(replay.begin[k])),
      element('td', {class: 'num'}, formatTime(replay.end[k])),
      bytesElement(replay.live[k], 'td', {class: 'num'}),
      ...replay.kinds.map(kind => bytesElement(kind[k], 'td', {class: 'num'}))));
  $('steps-table').replaceChildren(head, body);
  const turn = (text, page, off) => {
    const button = element('button', {type: 'button', disabled: off}, text);
    button.addEventListener('click', () => { stepsPage = page; drawStepsTable(); });
    return button;
  };
  $('steps-pager').replaceChildren(turn('Previous', stepsPage - 1, stepsPage === 0),
    element('span', {class: 'muted'}, `page ${formatCount(stepsPage + 1)} of ${formatCount(pages)}`),
    turn('Next', stepsPage + 1, stepsPage === pages - 1),
    turn('Selected', Math.floor(state.step / STEPS_A_PAGE), false));
}
