"""The page in use: pointer, keys, zoom, methods, search and sort."""

import json
import re

from cases_page import equal, figure, quiet


def view(browser):
    return [float(browser.data("body", name)) for name in ("from", "to")]


def step(browser):
    browser.settle()
    return int(browser.data("#when", "step"))


def pixels(browser, chart):
    return browser.run("charts.forEach(c => c.refresh(true)); return window.eval(arguments[0]).base.toDataURL()", chart)


# ---- The moment selected ----


def test_hover(context):
    browser = context.open(context.reports.plan()[0])
    seen = []
    for x in (0.2, 0.5, 0.9):
        browser.hover("#timeline", x, 0.5)
        k = step(browser)
        seen.append(k)
        live = browser.run("return state.plan.steps.live[arguments[0]]", k)
        equal(int(browser.data("#live-bytes span", "bytes")), live, "live bytes of the panel")
        rows = browser.run("return [...document.querySelectorAll('#live-table tr[data-storage] td[data-bytes]')]"
                           ".map(e => Number(e.dataset.bytes))")
        equal(rows, sorted(rows, reverse=True), "sizes in order")
        tip = browser.text("#tip")
        assert browser.run("return !document.getElementById('tip').hidden"), "no note at the pointer"
        assert browser.text("#live-bytes") in tip, f"{tip!r} does not tell the live bytes"
    equal(seen, sorted(set(seen)), "steps from left to right")
    browser.hover("#ops", 0.5, 0.5)
    assert step(browser) not in (seen[0], seen[2]), "the map of ops selects, too"


def test_click_keeps_the_moment(context):
    browser = context.open(context.reports.plan()[0])
    browser.click_at("#timeline", 0.4, 0.5)
    kept = step(browser)
    browser.hover("#timeline", 0.8, 0.5)
    equal(step(browser), kept, "step after the pointer moved on")
    browser.keys("escape")
    browser.hover("#timeline", 0.75, 0.5)
    assert step(browser) != kept, "Escape did not let the moment go"


def test_keys(context):
    browser = context.open(context.reports.plan()[0])
    count = browser.run("return state.replay.count")
    browser.focus("#timeline")
    browser.keys("home")
    equal(step(browser), 0, "step after Home")
    browser.keys("right", "right", "right", "left")
    equal(step(browser), 2, "step after the arrows")
    told = browser.wait("const t = document.getElementById('live').textContent; return t.startsWith('Step 2 ') && t")
    assert "live" in told and "of" in told, told
    equal(browser.run("return document.getElementById('timeline').ariaValueNow"), "2", "value of the slider")
    browser.keys("end")
    equal(step(browser), count - 1, "step after End")
    browser.keys("p")
    equal(step(browser), browser.run("return state.plan.peak_step"), "step after P")
    browser.wait("return document.getElementById('live').textContent.includes('the peak')")


def test_peak_explained(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    browser.click("#zoom-in")
    browser.click("#to-peak")
    equal(step(browser), browser.run("return state.plan.peak_step"), "step")
    text = browser.text("#why")
    op = browser.run("return opName(state.replay.ids[state.replay.peak])")
    for part in (op, "activations", "next read by", "budget"):
        assert part in text, f"{part!r} is not in {text!r}"
    low, high = view(browser)
    at = browser.run("return [state.replay.t0[state.step], state.replay.t1[state.step]]")
    assert low <= at[1] and at[0] <= high, "the peak is not in view"


def test_live_table(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    browser.click("#to-peak")
    rows = "return [...document.querySelectorAll('#live-table tr[data-storage] td[data-bytes]')].map(e => Number(e.dataset.bytes))"
    equal(len(browser.run(rows)), 25, "rows at first")
    browser.click("#live-all")
    equal(sum(browser.run(rows)), plan["peak_bytes"], "sum of all rows")
    browser.click("#live-all")
    browser.type("#live-search", "layer1.0.conv")
    names = browser.run("return [...document.querySelectorAll('#live-table tr[data-storage] bdi')].map(e => e.textContent)")
    assert names and all("layer1.0.conv" in name for name in names), names
    browser.type("#live-search", "no such tensor")
    equal(browser.run(rows), [], "rows of nothing")


# ---- Zoom ----


def test_zoom_by_keys_and_buttons(context):
    browser = context.open(context.reports.plan()[0])
    whole = view(browser)
    before = {chart: pixels(browser, chart) for chart in ("timeline", "lanes", "opsMap", "arenaMap")}
    browser.focus("#timeline")
    browser.keys("+", "+")
    low, high = view(browser)
    assert abs((high - low) * 4 - (whole[1] - whole[0])) < 1e-9 * whole[1], "two steps of zoom are a quarter"
    for chart, old in before.items():
        assert pixels(browser, chart) != old, f"{chart} did not follow"
    browser.keys("shift+right")
    assert view(browser)[0] > low, "Shift and an arrow pan"
    browser.keys("-")
    browser.keys("0")
    equal(view(browser), whole, "the whole step")
    for chart, old in before.items():
        assert pixels(browser, chart) == old, f"{chart} is not as before"
    browser.click("#zoom-in")
    assert view(browser) != whole, "the button zooms"
    browser.click("#zoom-all")
    equal(view(browser), whole, "the whole step again")


def test_zoom_by_pointer(context):
    browser = context.open(context.reports.plan()[0])
    whole = view(browser)
    browser.wheel("#timeline", 0.5, -200)
    equal(view(browser), whole, "a wheel over a chart without the focus scrolls the page")
    browser.focus("#timeline")
    browser.wheel("#timeline", 0.5, -300)
    low, high = view(browser)
    assert 0 < low and high < whole[1], "the wheel zooms"
    browser.drag("#timeline", 0.4, 0.6)
    moved = view(browser)
    assert moved[0] < low and abs((moved[1] - moved[0]) - (high - low)) < 1e-12, "dragging pans"
    browser.keys("0")
    browser.drag("#lanes", 0.4, 0.6)
    low, high = view(browser)
    assert 0.15 < (high - low) / whole[1] < 0.3, "dragging over the whole step zooms to what was dragged over"
    quiet(browser, context.reports.plan()[0])


def test_axis_and_colours(context):
    browser = context.open(context.reports.plan()[0])
    before = pixels(browser, "timeline")
    browser.click('[data-axis="step"]')
    equal(view(browser), [0, max(browser.run("return [state.replay.count, replayOf(storeAll).count]"))], "steps in view")
    by_step = pixels(browser, "timeline")
    assert by_step != before, "the axis of steps looks like that of time"
    browser.click('[data-stack="layer"]')
    assert pixels(browser, "timeline") != by_step, "the colours did not change"
    legend = browser.text("#legend")
    assert "layer1.0" in legend or "conv1" in legend, legend
    equal(browser.run("return [...document.querySelectorAll('[data-stack]')].map(e => e.ariaPressed)"),
          ["false", "true"], "pressed")
    browser.click('[data-axis="time"]')
    browser.click('[data-stack="kind"]')
    equal(pixels(browser, "timeline"), before, "the picture, back again")


def test_copies_have_lanes(context):
    path, plan = context.reports.link()
    browser = context.open(path)
    assert plan["offloaded_bytes"] > 0, "the plan moves something"
    equal(browser.run("return lanes.rows().map(row => row.label)"), ["compute", "copy out", "copy in"], "lanes")
    moved = browser.run("""
        const {step} = lanes.copySpans(OFFLOAD);
        return Array.from(step).reduce((sum, k) => sum + data.values.bytes[data.values.root[state.replay.ids[k]]], 0)""")
    equal(moved, plan["offloaded_bytes"], "bytes of the lane")
    color = browser.run("""
        const c = lanes.base.getContext('2d').getImageData(0, 0, lanes.base.width, lanes.base.height).data;
        const rgb = parseInt(colors().out.slice(1), 16);
        let n = 0;
        for (let i = 0; i < c.length; i += 4)
          n += c[i] === rgb >> 16 && c[i + 1] === (rgb >> 8 & 255) && c[i + 2] === (rgb & 255);
        return n;""")
    assert color > 50, "the copies are not to be seen"


# ---- The trade-off ----


def test_methods_can_be_hidden(context):
    browser = context.open(context.reports.curve())
    count = "return document.querySelectorAll('#curve .point').length"
    before = browser.run(count)
    own = browser.run("return document.querySelectorAll('#curve .point[data-method=neap]').length")
    assert own >= 3, f"{own} points of neap"
    browser.click('#methods [data-method="neap"]')
    equal(browser.run(count), before - own, "points without neap")
    browser.click('#methods [data-method="neap"]')
    equal(browser.run(count), before, "points, back again")


def test_equal_series_are_joined(context):
    """Two methods with the same plans, and an outlier: made from the page's own data."""
    browser = context.open(context.reports.curve())
    browser.run("""
        data.curve.points = data.curve.points.filter(p => p.method === 'neap' && p.overhead !== null);
        const twin = data.curve.points.map(p => ({...p, method: 'twin'}));
        const far = data.curve.points.map(p => ({...p, method: 'far', overhead: 50, plan: null}));
        while (data.curve.points.length < 8) data.curve.points.push({...data.curve.points[0]});
        data.curve.points.push(...twin.concat(twin.length < 8 ? Array(8 - twin.length).fill(twin[0]) : []), far[0]);
        startCurve();
        drawCurve();
    """)
    labels = browser.run("return [...document.querySelectorAll('#methods bdi')].map(e => e.textContent)")
    equal(labels, ["neap = twin", "far"], "series")
    assert "1 point above the scale, up to +5000%" in browser.text("#clipped"), browser.text("#clipped")
    y = "return document.querySelector('#curve .point[data-method=neap] path').getBBox().y"
    before = browser.run(y)
    browser.click("#full-scale")
    assert browser.run("return document.getElementById('clipped').hidden"), "nothing is clipped at full scale"
    assert browser.run(y) > before, "the full scale squeezes the others"


def test_bound_and_floor(context):
    browser = context.open(context.reports.curve())
    floor = browser.run("return floorBytes()")
    equal(int(browser.data("#curve text[data-bytes]", "bytes")), floor, "floor")
    below = browser.run("""
        return curvePoints().filter(p => p.overhead !== null && (p.peak_bytes < floorBytes() ||
          boundPoints().some(b => b.budget_bytes === p.budget_bytes && b.overhead > p.overhead + 1e-9)))""")
    equal(below, [], "points below what is proven")


def test_overheads_below_zero(context):
    """A plan with faster kernels takes less time than one run of every op; its point stays in the picture."""
    browser = context.open(context.reports.plan()[0])
    y, low, zero, place = browser.run("""
        curvePoints()[0].overhead = -0.02;
        startCurve();
        drawCurve();
        const point = document.querySelector('#curve .point'), scale = curveScale(curveState.series, []);
        return [Number(point.querySelector('.halo').getAttribute('cy')), CURVE.height - CURVE.bottom, scale.y(0),
                point.dataset.point];
    """)
    assert zero < y < low, f"{y} between {zero} (no overhead) and {low} (the axis)"
    equal(place, "0", "which point it is")


def test_bound_is_stairs(context):
    """What is proven for a budget says nothing about larger ones: no slope between two budgets."""
    browser = context.open(context.reports.curve())
    stairs, bound = browser.run("""
        const path = document.querySelector('#curve path.bound');
        const bound = boundPoints(), scale = curveScale(curveState.series, bound);
        return [path.getAttribute('d'), bound.map(b => [scale.x(b.budget_bytes), scale.y(b.overhead)])]""")
    equal(re.sub("[-0-9.e ]+", "", stairs), "M" + "VH" * len(bound), "lines of the bound")
    corners = re.findall("V([-0-9.e]+)H([-0-9.e]+)", stairs)
    equal([[float(x), float(y)] for y, x in corners], bound, "its corners")


def test_methods_at_one_budget(context):
    """Of a comparison, points lie by the memory they take, and a method without a plan is named."""
    path, rows = context.reports.comparison()
    browser = context.open(path)
    found = browser.run("""
        const scale = curveScale(curveState.series, boundPoints());
        return [...document.querySelectorAll('#curve .point')].map(e => {
          const point = curvePoints()[e.dataset.point];
          const x = Number(e.querySelector('.halo').getAttribute('cx'));
          return [point.method, Math.abs(x - scale.x(point.peak_bytes)) < 1e-6];
        })""")
    fit = [row["method"] for row in rows if row["overhead"] is not None]
    assert 2 <= len(fit) < len(rows), rows
    equal(sorted(found), sorted([method, True] for method in fit), "methods in place")
    equal(browser.text('#methods [data-method="store-all"]'), "store-all (no plan fits)", "the other")
    table = browser.run("""
        return [...document.querySelectorAll('#curve-table tbody tr')].map(row =>
          [row.cells[0].textContent, row.cells[3].dataset.overhead ? Number(row.cells[3].dataset.overhead) : null])""")
    equal(table, [[row["method"], row["overhead"]] for row in rows], "table of the points")
    quiet(browser, path)


def test_points_show_their_plans(context):
    path = context.reports.curve()
    browser = context.open(path)
    points = browser.run("return [...document.querySelectorAll('#curve .point[tabindex]')].map(e => e.dataset.point)")
    main = browser.data("body", "plan")
    other = next(p for p in points if browser.data(f'[data-point="{p}"]', "plan") != main)
    point = f'[data-point="{other}"]'
    index = int(browser.data(point, "plan"))
    browser.click_at(point + " .halo", 0.5, 0.5)
    equal(int(browser.data("body", "plan")), index, "plan shown after the click")
    plan = browser.run("const p = {...data.plans[arguments[0]]}; delete p.steps; delete p.offsets; return p", index)
    for name in ("peak_bytes", "overhead", "time"):
        equal(figure(browser, name), plan[name], name)
    equal(int(browser.data("#live-bytes span", "bytes")), plan["peak_bytes"], "panel")
    equal(browser.run("return document.getElementById('plan').value"), str(index), "selector")
    browser.wait("return document.getElementById('live').textContent.startsWith('Now showing')")
    back = next(p for p in points if browser.data(f'[data-point="{p}"]', "plan") == main)
    browser.focus(f'[data-point="{back}"]')
    browser.keys("enter")
    equal(browser.data("body", "plan"), main, "plan shown after Enter")
    browser.keys("right")
    equal(browser.run("return document.activeElement.dataset.point"), points[(points.index(back) + 1) % len(points)],
          "focus after an arrow")
    browser.run("const s = document.getElementById('plan'); s.value = '0'; s.dispatchEvent(new Event('change'))")
    browser.settle()
    equal(figure(browser, "overhead"), 0, "overhead of the ordinary step")
    quiet(browser, path)


# ---- Layers ----


def test_layers_sort(context):
    browser = context.open(context.reports.plan()[0])
    order = "return [...document.querySelectorAll('#layer-table tbody tr')].map(e => Number(e.dataset.layer))"
    natural = browser.run(order)
    equal(natural, sorted(natural), "order at first")
    columns = browser.run("return LAYER_COLUMNS.map(c => c.key)")
    for column in columns:
        values = {}
        for _ in range(2):
            browser.click(f'#layer-table [data-sort="{column}"]')
            sort = browser.run("return document.querySelector(arguments[0]).parentNode.ariaSort",
                               f'#layer-table [data-sort="{column}"]')
            values[sort] = browser.run("""
                const c = LAYER_COLUMNS.find(c => c.key === arguments[0]);
                return [...document.querySelectorAll('#layer-table tbody tr')].map(e =>
                  c.value(layerTable.rows[Number(e.dataset.layer)]))""", column)
        equal(sorted(values), ["ascending", "descending"], f"aria-sort of {column}")
        equal(values["ascending"], sorted(values["ascending"]), f"{column} ascending")
        equal(values["descending"], sorted(values["descending"], reverse=True), f"{column} descending")
    return f"{len(columns)} columns"


def test_layers_fit(context):
    """At the width of a small desktop no column of the table is cut off."""
    for path in (context.reports.curve(), context.reports.link()[0]):
        browser = context.open(path)
        hidden = browser.run("""
            const box = document.querySelector('#layers .scroll');
            return box.scrollWidth - box.clientWidth""")
        equal(hidden, 0, "pixels beyond the edge")


def test_layers_search_and_sums(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    totals = browser.run("""
        const sum = key => layerTable.rows.reduce((s, row) => s + row[key], 0);
        return [sum('runs'), sum('moved'), sum('extra')]""")
    equal(totals[0], plan["recomputed_ops"], "recomputations of all layers")
    assert abs(totals[2] - (plan["time"] - plan["base_time"])) < 1e-12, "extra time of all layers"
    browser.type("#layer-search", "layer2.")
    names = browser.run("return [...document.querySelectorAll('#layer-table tbody th')].map(e => e.textContent)")
    assert names and all("layer2." in name for name in names), names
    equal(json.loads(browser.text("#layer-count").split()[0]), len(names), "count")


def test_layers_of_a_plan_that_moves(context):
    path, plan = context.reports.link()
    browser = context.open(path)
    moved = browser.run("return layerTable.rows.reduce((s, row) => s + row.moved, 0)")
    equal(moved, plan["offloaded_bytes"], "bytes moved by all layers")
