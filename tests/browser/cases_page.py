"""The page as it stands when it opens: nothing is fetched, the numbers are right, everyone can read it."""

import json
import os
import re

from reports import HOSTILE

UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2060-\u2069\ufeff]")


def equal(found, wanted, what):
    assert found == wanted, f"{what}: {found!r}, expected {wanted!r}"


def quiet(browser, path):
    """The page printed nothing and requested only itself."""
    equal(browser.console(), [], "console")
    own = "file://" + os.path.abspath(path)
    others = [url for url in browser.requests() if url != own and not url.startswith("data:,")]
    equal(others, [], "requests")
    hidden = browser.run("return document.getElementById('problem').hidden")
    assert hidden, browser.text("#problem")


def block(path):
    """The data of a report, packed as in the file."""
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return json.loads(re.search(r'id="neap-data">(.*?)</script>', text, re.S).group(1))


# ---- Opening ----


def test_opens_alone(context):
    reports = context.reports
    paths = [reports.plan()[0], reports.link()[0], reports.curve(), reports.train()]
    for path in paths:
        browser = context.open(path)
        browser.run("window.scrollTo(0, document.body.scrollHeight)")
        browser.settle()
        quiet(browser, path)
    return f"{len(paths)} reports"


def test_title(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    title = block(path)["title"]
    about = block(path)["about"]
    network = plan["graph"].removesuffix(f"_b{about['batch']}")
    equal(title, f"{network}, batch {about['batch']}, on {about['device']}", "title in the data")
    equal(browser.run("return document.title"), title, "document's title")
    equal(browser.text("h1"), title, "heading")


def test_panel_covers_nothing(context):
    """The panel stays beside the charts, also where the page is scrolled to what comes after them."""
    browser = context.open(context.reports.plan()[0])
    browser.click("#memory-data summary")
    browser.box("#steps-table")
    browser.settle()
    low, high = browser.run("""
        const of = id => document.querySelector(id).getBoundingClientRect();
        return [of('.moment').bottom, of('#memory-data').top]""")
    assert low <= high + 1, f"the panel ends at {low}, the table begins at {high}"


# ---- Numbers ----


def figure(browser, name):
    return json.loads(browser.data(f'[data-figure="{name}"]', "value"))


def test_figures_equal_the_plan(context):
    count = 0
    for path, plan in (context.reports.plan(), context.reports.link()):
        browser = context.open(path)
        names = ["peak_bytes", "budget_bytes", "time", "overhead", "recomputed_ops", "arena_bytes"]
        if plan["bound_time"] is not None:
            names.append("bound_time")
        if plan["offloaded_bytes"]:
            names.append("offloaded_bytes")
        for name in names:
            equal(figure(browser, name), plan[name], name)
        equal(block(path)["plans"][1]["bound_scope"], plan["bound_scope"], "scope of the bound")
        count += len(names)
        exact = browser.run("return document.querySelector('[data-figure=peak_bytes]').title")
        equal(exact, f"{plan['peak_bytes']:,} bytes", "exact peak")
    return f"{count} numbers"


def scaled(value, unit):
    size = abs(value)
    return f"{value:.{0 if size >= 99.95 else 1 if size >= 9.995 else 2}f} {unit}"


def test_first_sentence(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    sentence = browser.text("#result")
    for number in (
        scaled(plan["peak_bytes"] / 2**20, "MiB"),
        scaled(plan["natural_peak_bytes"] / 2**20, "MiB"),
        scaled(plan["overhead"] * 100, "").strip() + "% longer",
    ):
        assert number in sentence, f"{number!r} is not in {sentence!r}"


def test_bound_claims_no_more_than_is_proven(context):
    browser = context.open(context.reports.plan()[0])
    clause = "return boundClause({bound_time: 0.5, gap: arguments[1], bound_scope: arguments[0]})"
    equal(browser.run(clause, "any", 0), "; no plan in this budget is faster than 500 ms, so this one is optimal", "any")
    assert browser.run(clause, "any", 4e-5).endswith("optimal (to 0.01%)")
    assert browser.run(clause, "any", 6e-5).endswith("within 0.01% of the fastest")
    some = browser.run(clause, "order", 0)
    assert "no plan of its kind (fixed order)" in some and some.endswith("the fastest of them"), some
    assert browser.run(clause, "once", 0.1).endswith("within 10.0% of the fastest of them")


def test_peak_is_made_of_the_same_parts(context):
    for path, plan in (context.reports.plan(), context.reports.link()):
        browser = context.open(path)
        browser.click("#to-peak")
        for kind, size in plan["peak_parts"].items():
            equal(int(browser.data("#live-parts", kind)), size, f"{kind} at the peak")
        equal(int(browser.data("#live-bytes span", "bytes")), plan["peak_bytes"], "live at the peak")
        ordinary = browser.run("return replayOf(storeAll).kinds.map(k => k[replayOf(storeAll).peak])")
        equal(ordinary, list(plan["natural_peak_parts"].values()), "parts without a plan")


def test_every_step_adds_up(context):
    """By kind, by layer and tensor by tensor, memory is what the file says, in every plan."""
    steps = 0
    for path in (context.reports.curve(), context.reports.link()[0]):
        browser = context.open(path)
        wrong, count = browser.run("""
            const wrong = [];
            let count = 0;
            for (const plan of data.plans) {
              const r = replayOf(plan), bands = r.layers.bands;
              const every = Math.ceil(r.count / 100);
              for (let k = 0; k < r.count; k++, count++) {
                const sum = list => list.reduce((a, b) => a + b, 0);
                const live = plan.steps.live[k];
                if (sum(r.kinds.map(kind => kind[k])) !== live) wrong.push([plan.id, k, 'kinds']);
                if (sum(bands.map(band => band[k])) !== live) wrong.push([plan.id, k, 'layers']);
                if (k % every === 0 && sum(r.liveAt(k).map(item => item.bytes)) !== live)
                  wrong.push([plan.id, k, 'tensors']);
              }
              if (r.live[r.peak] !== plan.peak_bytes) wrong.push([plan.id, 'peak']);
            }
            return [wrong.slice(0, 5), count];
        """)
        equal(wrong, [], "steps that do not add up")
        steps += count
    return f"{steps} steps"


def test_tables_hold_exact_bytes(context):
    path, plan = context.reports.plan()
    browser = context.open(path)
    browser.click("#memory-data summary")
    browser.wait("return document.querySelector('#steps-table tbody tr')")
    found = browser.run("""
        const rows = [...document.querySelectorAll('#steps-table tbody tr')];
        return rows.map(row => [Number(row.cells[0].textContent.replace(',', '')),
                                Number(row.cells[4].dataset.bytes)]);
    """)
    live = browser.run("return Array.from(state.plan.steps.live)")
    equal(found, [[k, live[k]] for k, _ in found], "steps of the table")
    equal(max(live), plan["peak_bytes"], "peak")
    chosen = browser.run("return document.querySelector('#steps-table [aria-current]').cells[0].textContent")
    equal(int(chosen.replace(",", "")), browser.run("return state.step"), "selected row")


def test_reproduce(context):
    path, _ = context.reports.plan()
    browser = context.open(path)
    equal(browser.text("#command"), block(path)["about"]["command"], "command")
    assert browser.text("#command").startswith("neap plan resnet18"), browser.text("#command")
    equal(browser.text('[data-fact="graph hash"]'), block(path)["about"]["graph_hash"], "hash")
    browser.click("#copy")
    browser.wait("return document.getElementById('copy').textContent !== 'Copy'")


def test_training(context):
    path = context.reports.train()
    browser = context.open(path)
    train = block(path)["train"]
    rows = browser.run("""
        return [...document.querySelectorAll('#training-table tbody tr')].map(row =>
          [Number(row.cells[0].textContent), Number(row.cells[1].textContent)]);
    """)
    equal(rows, [list(pair) for pair in zip(train["steps"], train["loss"])], "steps and losses")
    browser = context.open(context.reports.plan()[0])
    assert browser.run("return document.getElementById('training').hidden"), "no training was done"


# ---- Names ----


def test_hostile_names(context):
    path = context.reports.hostile()
    browser = context.open(path)
    for script in ("toPeak()", "document.querySelector('[data-stack=layer]').click()"):
        browser.run(script)
        browser.settle()
    for x in (0.2, 0.5, 0.8):
        for chart in ("#timeline", "#lanes", "#ops", "#arena"):
            browser.hover(chart, x, 0.5)
    browser.click("#memory-data summary")
    browser.settle()
    quiet(browser, path)
    equal(browser.run("return window.harmed === undefined"), True, "scripts in names did not run")
    equal(browser.run("return document.querySelectorAll('script').length"), 2, "scripts")
    equal(browser.run("return document.querySelectorAll('img, iframe, object').length"), 0, "images")
    words = browser.run("return [document.body.innerText, document.title, ...[...document.querySelectorAll("
                        "'[title], [aria-label]')].map(e => (e.title || '') + e.ariaLabel)].join(' ')")
    found = UNSEEN.search(words.replace("\n", " ").replace("\t", " "))
    assert not found, f"{found.group(0)!r} is shown"
    assert "<script>window.harmed" in words, "the name itself is shown"
    wide = browser.run("return document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, f"the page is {wide} pixels too wide"
    longest = browser.run("""
        return Math.max(...[...document.querySelectorAll('bdi')].map(e => e.textContent.length))""")
    assert longest <= 100, f"a name of {longest} characters is not shortened"
    return f"{len(HOSTILE)} names"


# ---- For everyone ----


def test_structure(context):
    browser = context.open(context.reports.curve())
    problems = browser.run("""
        const problems = [];
        const shown = e => !e.closest('[hidden]');
        const ids = [...document.querySelectorAll('[id]')].map(e => e.id);
        if (new Set(ids).size !== ids.length) problems.push('ids are not unique');
        for (const tag of ['main', 'header', 'nav', 'footer', 'h1'])
          if (document.querySelectorAll(tag).length !== 1) problems.push('not one ' + tag);
        let level = 0;
        for (const h of [...document.querySelectorAll('h1, h2, h3')].filter(shown)) {
          if (Number(h.tagName[1]) > level + 1) problems.push('level skipped at ' + h.textContent);
          level = Number(h.tagName[1]);
        }
        const name = e => e.ariaLabel || e.textContent.trim() || (e.labels && e.labels.length);
        for (const e of document.querySelectorAll('button, select, input, [role=button], [role=img], [role=slider]'))
          if (shown(e) && !name(e)) problems.push('no name: ' + e.outerHTML.slice(0, 80));
        for (const attribute of ['aria-labelledby', 'aria-describedby', 'for'])
          for (const e of document.querySelectorAll('[' + attribute + ']'))
            if (!document.getElementById(e.getAttribute(attribute)))
              problems.push(attribute + ' of ' + (e.id || e.tagName));
        for (const e of document.querySelectorAll('canvas'))
          if (e.getAttribute('aria-hidden') !== 'true') problems.push('a canvas is not hidden');
        for (const e of document.querySelectorAll('thead th'))
          if (e.scope !== 'col') problems.push('a heading without scope: ' + e.textContent);
        for (const e of document.querySelectorAll('section[aria-labelledby]'))
          if (shown(e) && !e.querySelector('h1, h2')) problems.push('a section without heading');
        return problems;
    """)
    equal(problems, [], "structure")


CONTRAST = """
    const style = getComputedStyle(document.documentElement);
    const light = name => {
      const rgb = parseInt(style.getPropertyValue('--' + name).trim().slice(1), 16);
      const f = s => { const c = (rgb >> s & 255) / 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
      return 0.2126 * f(16) + 0.7152 * f(8) + 0.0722 * f(0);
    };
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)]; return (Math.max(x, y) + 0.05) / (Math.min(x, y) + 0.05); };
    return arguments[0].map(([a, b]) => ratio(a, b));
"""


def test_contrast(context):
    """WCAG: text 4.5 to 1 on its ground, what carries meaning in pictures 3 to 1 (bands have neighbours too)."""
    browser = context.open(context.reports.plan()[0])
    text = [(ink, ground) for ink in ("ink", "muted", "accent", "warn", "budget") for ground in ("page", "card")]
    text.append(("accent-ink", "accent"))
    marks = [(mark, "page") for mark in ("again", "forward", "out", "in", "outline", "k0", "mark", "focus")]
    for theme in ("light", "dark"):
        browser.run("applyTheme(arguments[0])", theme)
        for pairs, least in ((text, 4.5), (marks, 3)):
            for pair, ratio in zip(pairs, browser.run(CONTRAST, pairs)):
                assert ratio >= least, f"{theme}: {pair[0]} on {pair[1]} has {ratio:.2f} to 1"


def test_dark_mode(context):
    path, _ = context.reports.plan()
    ground = "return getComputedStyle(document.body).backgroundColor"
    pixel = "const c = timeline.base; return [...c.getContext('2d').getImageData(c.width / 2, c.height - 40, 1, 1).data]"
    dark = context.open(path, dark=True)
    equal(dark.data("html", "theme"), "dark", "theme where the system is dark")
    equal(dark.run(ground), "rgb(20, 23, 27)", "dark ground")
    browser = context.open(path)
    equal(browser.data("html", "theme"), "light", "theme")
    before = browser.run(pixel)
    browser.click("#theme")
    equal(browser.data("html", "theme"), "dark", "theme after the button")
    equal(browser.run(ground), dark.run(ground), "ground after the button")
    assert browser.run(pixel) != before, "the chart kept its light colours"
    equal(browser.run(pixel), dark.run(pixel), "colours of the chart")
    browser.click("#theme")
    equal(browser.run(pixel), before, "colours of the chart, back again")


def test_narrow_screen(context):
    for path in (context.reports.link()[0], context.reports.curve()):
        browser = context.open(path, width=500, height=740)
        browser.cdp("Emulation.setDeviceMetricsOverride", width=360, height=740, deviceScaleFactor=2, mobile=True)
        browser.wait("return innerWidth === 360")
        browser.settle()
        wide = browser.run("""
            return [...document.querySelectorAll('main *')].filter(e => !e.closest('.scroll, .live-scroll, svg, pre') &&
              e.getBoundingClientRect().right > 361 && e.checkVisibility()).map(e => e.id || e.className || e.tagName)""")
        equal(wide, [], "elements beyond the edge")
        equal(browser.run("return document.documentElement.scrollWidth"), 360, "width of the page")
        browser.box("#timeline")
        browser.wait("return timeline.base.width === Math.round(timeline.box.clientWidth * 2)")


def test_print(context):
    browser = context.open(context.reports.plan()[0])
    browser.click("#theme")
    pdf = browser.print()
    assert pdf.startswith(b"%PDF-") and len(pdf) > 20000, f"{len(pdf)} bytes of PDF"
    equal(browser.data("html", "theme"), "dark", "theme after printing")
    browser.click("#theme")
    return f"{len(pdf) // 1024} KiB of PDF"
