/* Starts the page: everything is drawn from the state, and redrawn when it changes. */

let timeline = null, lanes = null, opsMap = null, arenaMap = null;

function showPlan(plan, first) {
  const old = state.plan;
  state.plan = plan;
  state.replay = replayOf(plan);
  document.body.dataset.plan = data.plans.indexOf(plan);
  if (!state.replay.agreed || state.replay.live[state.replay.peak] !== plan.peak_bytes)
    complain('The bytes that this page adds up differ from the plan\'s own; please report this.');
  drawHead();
  state.pinned = false;
  state.from = state.to = -1;
  zoomAll();
  select(state.replay.peak);
  drawLegend();
  describeMaps();
  drawLayers();
  drawStepsTable();
  drawCurve();
  changed('all');
  if (!first && old !== plan)
    say(`Now showing ${planLabel(plan)}: ${$('result').textContent}`);
}

function complain(text) {
  $('problem').textContent = text;
  $('problem').hidden = false;
}

/* ---- Theme ---- */

const darkQuery = matchMedia('(prefers-color-scheme: dark)');
let chosenTheme = null;

function applyTheme(theme) {
  document.documentElement.dataset.theme = theme;
  $('theme').textContent = theme === 'dark' ? 'Light' : 'Dark';
  $('theme').setAttribute('aria-pressed', String(theme === 'dark'));
  $('theme').setAttribute('aria-label', theme === 'dark' ? 'Use light colours' : 'Use dark colours');
  palette = null;
  if (state.replay) {
    drawLegend();
    showMoment();
    changed('all');
  }
}

const currentTheme = () => chosenTheme || (darkQuery.matches ? 'dark' : 'light');

/* Paper is white: print in light colours, the whole step in view. */
const PAPER = 720; /* width of a picture, in pixels */

function startPrinting() {
  let kept = null;
  const drawNow = () => {
    for (const chart of charts)
      chart.refresh(true);
    drawMoment();
    drawCurve(PAPER);
  };
  addEventListener('beforeprint', () => {
    kept = [state.from, state.to];
    applyTheme('light');
    zoomAll();
    drawNow();
  });
  addEventListener('afterprint', () => {
    applyTheme(currentTheme());
    if (kept)
      setView(...kept);
    drawCurve();
  });
}

/* ---- Buttons ---- */

function startChoice(name, act) {
  const buttons = document.querySelectorAll(`[data-${name}]`);
  for (const button of buttons)
    button.addEventListener('click', () => {
      for (const other of buttons)
        other.setAttribute('aria-pressed', String(other === button));
      act(button.dataset[name]);
    });
}

/* Keeps the same steps in view where the axis changes. */
function setAxis(axis) {
  const replay = state.replay, whole = !isZoomed();
  const [first, last] = stepsIn(replay, state.from, state.to, state.to >= wholeSpan());
  state.axis = axis;
  state.from = state.to = -1;
  if (whole || last <= first)
    zoomAll();
  else
    setView(beginOf(replay, first), endOf(replay, last - 1));
  changed('all');
}

function startButtons() {
  startChoice('stack', stack => {
    state.stack = stack;
    drawLegend();
    changed('all');
  });
  startChoice('axis', setAxis);
  $('zoom-in').addEventListener('click', () => zoomAtSelected(0.5));
  $('zoom-out').addEventListener('click', () => zoomAtSelected(2));
  $('zoom-all').addEventListener('click', zoomAll);
  $('to-peak').addEventListener('click', toPeak);
  $('theme').addEventListener('click', () => {
    chosenTheme = currentTheme() === 'dark' ? 'light' : 'dark';
    applyTheme(chosenTheme);
  });
  addEventListener('resize', () => changed('all')); /* also where only the pixel ratio changes */
  darkQuery.addEventListener('change', () => applyTheme(currentTheme()));
  $('live-search').addEventListener('input', showMoment);
  $('live-all').addEventListener('click', () => {
    showAllLive = !showAllLive;
    showMoment();
  });
  $('layer-search').addEventListener('input', drawLayerTable);
  $('layer-all').addEventListener('click', () => {
    layerTable.most += MORE_ROWS;
    drawLayerTable();
  });
  $('memory-data').addEventListener('toggle', () => {
    stepsPage = Math.floor(state.step / STEPS_A_PAGE);
    drawStepsTable();
  });
}

function start() {
  applyTheme(currentTheme());
  timeline = new Timeline();
  lanes = new Lanes();
  opsMap = new OpsMap();
  arenaMap = new ArenaMap();
  startHead();
  startCurve();
  drawLayerHead();
  startReproduce();
  startTraining();
  startButtons();
  startPrinting();
  showPlan(state.plan, true);
  requestAnimationFrame(() => setTimeout(() => { /* after the first frame: milliseconds since the start */
    document.body.dataset.ready = String(Math.round(performance.now()));
  }, 0));
}

start();
