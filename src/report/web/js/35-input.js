/* Zoom, pan and selection by pointer, wheel, touch and keys, alike on every linked chart. */

function setView(from, to) {
  const whole = wholeSpan(), span = Math.min(Math.max(to - from, leastSpan()), whole);
  let start = from + (to - from - span) / 2;
  start = Math.max(0, Math.min(start, whole - span));
  if (start === state.from && start + span === state.to)
    return;
  state.from = start;
  state.to = start + span;
  document.body.dataset.from = state.from;
  document.body.dataset.to = state.to;
  changed('all');
}

function zoom(factor, around) {
  const at = around === undefined ? (state.from + state.to) / 2 : around;
  setView(at - (at - state.from) * factor, at + (state.to - at) * factor);
}

function pan(fraction) {
  const by = (state.to - state.from) * fraction;
  const moved = Math.max(-state.from, Math.min(by, wholeSpan() - state.to));
  setView(state.from + moved, state.to + moved);
}

const zoomAll = () => setView(0, wholeSpan());
const isZoomed = () => state.to - state.from < wholeSpan() * 0.9999;

/* Brings the moment selected into view. */
function showSelected() {
  const replay = state.replay, span = state.to - state.from;
  const begin = beginOf(replay, state.step), end = endOf(replay, state.step);
  const middle = (begin + end) / 2;
  if (middle < state.from || middle > state.to)
    setView(middle - span / 2, middle + span / 2);
}

let sayTimer = 0;

/* Has the live region say it, once the reader pauses. */
function say(text) {
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => { $('live').textContent = text; }, 120);
}

/* Selects a step; `how`: {pin, say, show}. */
function select(step, how = {}) {
  const count = state.replay.count;
  if (count === 0)
    return;
  state.step = Math.max(0, Math.min(step, count - 1));
  state.explain = Boolean(how.explain);
  if (how.pin !== undefined)
    state.pinned = how.pin;
  if (how.show)
    showSelected();
  changed('cursor');
  showMoment();
  if (how.say)
    say(describeMoment());
}

function toPeak() {
  select(state.replay.peak, {pin: true, show: true, say: true, explain: true});
}

/* ---- Keys ---- */

function chartKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey)
    return;
  const tenth = Math.max(1, Math.round(state.replay.count / 10));
  const go = step => select(step, {pin: true, show: true, say: true});
  const keys = {
    ArrowLeft: () => event.shiftKey ? pan(-0.1) : go(state.step - 1),
    ArrowRight: () => event.shiftKey ? pan(0.1) : go(state.step + 1),
    ArrowDown: () => go(state.step - 1),
    ArrowUp: () => go(state.step + 1),
    PageUp: () => go(state.step + tenth),
    PageDown: () => go(state.step - tenth),
    Home: () => go(0),
    End: () => go(state.replay.count - 1),
    '+': () => zoomAtSelected(0.5), '=': () => zoomAtSelected(0.5),
    '-': () => zoomAtSelected(2), '_': () => zoomAtSelected(2),
    '0': zoomAll,
    p: toPeak, P: toPeak,
    Escape: () => select(state.step, {pin: false}),
  };
  const act = keys[event.key];
  if (act) {
    event.preventDefault();
    act();
  }
}

function zoomAtSelected(factor) {
  const middle = (beginOf(state.replay, state.step) + endOf(state.replay, state.step)) / 2;
  zoom(factor, middle >= state.from && middle <= state.to ? middle : undefined);
}

/* ---- Pointers ---- */

/* One finger or the mouse drags, two fingers pinch, the wheel zooms a chart that has the focus. */
function linkPointer(chart) {
  const box = chart.box, pointers = new Map();
  let drag = null; /* {x, from, to, brush, moved} */

  const localX = event => event.clientX - box.getBoundingClientRect().left;
  const pinchOf = () => {
    const [a, b] = [...pointers.values()];
    return {middle: (a + b) / 2, apart: Math.max(8, Math.abs(a - b))};
  };

  function begin(event) {
    pointers.set(event.pointerId, localX(event));
    if (event.pointerType === 'mouse' && event.button !== 0)
      return;
    box.focus({preventScroll: true});
    try {
      box.setPointerCapture(event.pointerId);
    } catch (error) { /* a pointer that has gone already */ }
    drag = {x: localX(event), from: state.from, to: state.to, moved: pointers.size > 1,
            brush: event.shiftKey || (!isZoomed() && event.pointerType === 'mouse'),
            pinch: pointers.size === 2 ? pinchOf() : null};
  }

  function move(event) {
    const x = localX(event);
    if (pointers.has(event.pointerId))
      pointers.set(event.pointerId, x);
    if (!drag || !pointers.has(event.pointerId)) {
      hover(event, x);
    } else if (pointers.size >= 2 && drag.pinch) {
      const now = pinchOf(), span = (drag.to - drag.from) * drag.pinch.apart / now.apart;
      const at = drag.from + (drag.pinch.middle - LEFT) / chart.plotWidth() * (drag.to - drag.from);
      const start = at - (now.middle - LEFT) / chart.plotWidth() * span;
      setView(start, start + span);
    } else if (drag.moved || Math.abs(x - drag.x) > 4) {
      dragTo(x);
    }
  }

  function dragTo(x) {
    drag.moved = true;
    hideTip();
    if (drag.brush) {
      chart.brush = [drag.x, x];
      changed('cursor');
      return;
    }
    box.classList.add('dragging');
    const span = drag.to - drag.from;
    const by = (drag.x - x) / chart.plotWidth() * span;
    const start = Math.max(0, Math.min(drag.from + by, wholeSpan() - span));
    setView(start, start + span);
  }

  function hover(event, x) {
    if (event.pointerType === 'touch')
      return;
    if (!state.pinned)
      select(chart.stepAtPixel(x));
    showTip(chart.tipAt(x, event.clientY - box.getBoundingClientRect().top), event);
  }

  function end(event) {
    const was = drag;
    pointers.delete(event.pointerId);
    box.classList.remove('dragging');
    if (!was || pointers.size > 0)
      return;
    drag = null;
    if (chart.brush) {
      const [a, b] = chart.brush.map(x => chart.atOf(x)).sort((m, n) => m - n);
      chart.brush = null;
      setView(a, b);
      changed('cursor');
    } else if (!was.moved && event.type === 'pointerup') {
      const step = chart.pick(was.x, event.clientY - box.getBoundingClientRect().top);
      const same = state.pinned && step === state.step;
      select(step, {pin: !same, say: true});
    }
  }

  function wheel(event) {
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const focused = document.activeElement === box;
    if (!event.ctrlKey && !focused && !sideways)
      return;
    if (sideways && !isZoomed())
      return;
    event.preventDefault();
    if (sideways || event.shiftKey)
      pan((sideways ? event.deltaX : event.deltaY) / 1000);
    else
      zoom(Math.exp(Math.max(-1, Math.min(event.deltaY * (event.ctrlKey ? 0.01 : 0.002), 1))),
           chart.atOf(localX(event)));
  }

  box.addEventListener('pointerdown', begin);
  box.addEventListener('pointermove', move);
  box.addEventListener('pointerup', end);
  box.addEventListener('pointercancel', end);
  box.addEventListener('pointerleave', hideTip);
  box.addEventListener('dblclick', event => zoom(0.4, chart.atOf(localX(event))));
  box.addEventListener('wheel', wheel, {passive: false});
  box.addEventListener('keydown', chartKey);
}

/* ---- The note at the pointer ---- */

function showTip(text, event) {
  const tip = $('tip');
  if (!text) {
    hideTip();
    return;
  }
  tip.textContent = text;
  tip.hidden = false;
  const width = tip.offsetWidth, height = tip.offsetHeight;
  const right = event.clientX + 16 + width < window.innerWidth;
  const x = right ? event.clientX + 16 : Math.max(4, event.clientX - 16 - width);
  const y = Math.min(event.clientY + 14, window.innerHeight - height - 6);
  tip.style.transform = `translate(${Math.round(x)}px, ${Math.round(y)}px)`;
}

function hideTip() {
  $('tip').hidden = true;
}
