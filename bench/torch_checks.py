"""What the rows of bench/torch_gpu have to show: checks of all rows, and a line for each network."""

import common
import torch_rows
from common import MIB
from torch_rows import SLOWER, as_good, best_peers, mib, percent, title

PREDICTION, PREDICTION_WITH_COPIES = 0.02, 0.03  # real time against the planned
STRICT = 1.02  # reserved against the budget
BRIDGE = 0.01  # neap without a budget against PyTorch on the same kernels
FIRST, FROM_CACHE = 20.0, 2.0  # seconds
SAME_LOSS, SAME_NORM = 1e-3, 1e-2  # relative, against plain eager
LEFT_BEHIND = 64 * MIB
OUTSIDE = 512 * MIB  # kernels are loaded when they are first used


class Check:
    """A promise, the rows it was tried on, and those that break it. `short` heads its column of the summary."""

    def __init__(self, short, promise):
        self.short = short
        self.promise = promise
        self.results = {}  # (model, kind) -> (whether it holds, message) of each row
        self.notes = []

    def expect(self, row, holds, message, note=False):
        """row: one, or (model, kind). note: print the message where the promise holds, too."""
        where = (row["model"], row["kind"]) if isinstance(row, dict) else row
        self.results.setdefault(where, []).append((bool(holds), message))
        if holds and note:
            self.notes.append(message)

    def print(self):
        results = [result for found in self.results.values() for result in found]
        if not results:
            print(f"  --      {self.promise}: no rows")
            return
        broken = [message for holds, message in results if not holds]
        verdict = "ok" if not broken else "BROKEN"
        print(f"  {verdict:<8}{self.promise}: {len(results) - len(broken)} of {len(results)}")
        for message in broken + self.notes:
            print(f"          {message}")

    def cell(self, model, kind):
        """`ok`, or how many rows keep the promise; empty where there is none to try it on."""
        found = [holds for holds, _ in self.results.get((model, kind), [])]
        return "" if not found else "ok" if all(found) else f"{sum(found)} of {len(found)}"


def all_checks(rows):
    blocks = sorted({(model, kind) for model, kind, _ in rows.rows})
    neap = [row for row in rows.good() if row["way"] == "neap"]
    return [
        check_peak(neap, "peak", "peak", ""),
        check_peak(neap, "first_peak", "first peak", "first step, measuring included: "),
        check_best(rows, blocks),
        check_peers(rows, blocks),
        check_reach(rows, blocks),
        check_prediction(neap),
        check_bits(rows, neap),
        check_results(rows),
        check_reserved(neap),
        check_outside(rows, neap),
        check_bridge(rows, blocks),
        check_first(neap),
        check_start(rows, neap),
        check_failed(rows),
        check_left(rows),
    ]


def print_checks(rows):
    print("\nchecks")
    for check in all_checks(rows):
        check.print()


def print_summary(rows, order):
    """A line for each network and kind of kernels: what holds."""
    checks = [check for check in all_checks(rows) if check.short]
    blocks = sorted({(model, kind) for model, kind, _ in rows.rows}, key=lambda b: (order.index(b[0]), b[1]))
    lines = [[model, kind, *(check.cell(model, kind) for check in checks)] for model, kind in blocks]
    used = [i for i in range(len(checks)) if any(line[2 + i] for line in lines)]
    common.print_table(["network", "kernels", *(checks[i].short for i in used)],
                       [[*line[:2], *(line[2 + i] for i in used)] for line in lines])


def print_document(rows, order):
    """The summary and the rows for a document."""
    checks = all_checks(rows)
    print_summary(rows, order)
    print()
    for check in checks:
        if check.short and check.results:
            print(f"- {check.short}: {check.promise}")
    print()
    torch_rows.print_rows(rows, order)


# ---- checks ----


def check_peak(neap, field, short, what):
    check = Check(short, f"{what}peak at most the budget")
    for row in neap:
        if row.get("budget") and field in row and not row["fresh"]:
            over = row[field] - row["budget"]
            check.expect(row, over <= 0, f"{title(row)}: {over / MIB:.1f} MiB above {mib(row['budget'])} MiB")
    return check


def check_peers(rows, blocks):
    """Of all kernels: neap op by op beside what PyTorch does op by op, Inductor's beside all."""
    check = Check("beats", "PyTorch is not faster at the same peak or less")
    for model, kind in blocks:
        for row in rows.neap(model, kind):
            if "peak" not in row or not row.get("budget"):
                continue
            better = [p for p in rows.peers(model, kind) if p["peak"] <= row["peak"] and p["ms"] * (1 + SLOWER) < row["ms"]]
            best = min(better, key=lambda p: p["ms"], default=None)
            check.expect(row, best is None, best and f"{title(row)}: {row['ms']:.2f} ms at {mib(row['peak'])} MiB; PyTorch is "
                         f"faster with {best['kind']} {best['name']}: {best['ms']:.2f} ms at {mib(best['peak'])} MiB, "
                         f"{percent(best['ms'], row['ms'])}")
    return check


def check_best(rows, blocks):
    check = Check("not slower", f"neap is not slower (by {SLOWER:.0%} or more) at a peak that PyTorch reaches")
    strictly = tried = 0
    for model, kind in blocks:
        mine = [r for r in rows.neap(model, kind) if "peak" in r]
        for peer in best_peers(rows, model, kind) if mine else []:
            best = min((r for r in mine if r["peak"] <= peer["peak"]), key=lambda r: r["ms"], default=None)
            there = f"{best['name']} {best['ms']:.2f} ms, {percent(best['ms'], peer['ms'])}" if best else "nothing"
            check.expect(peer, best and as_good(best, peer), f"{title(peer)}: {peer['ms']:.2f} ms at {mib(peer['peak'])} MiB; "
                         f"neap has {there}")
            tried += 1
            strictly += bool(best and best["ms"] <= peer["ms"])
    if tried:
        check.notes.append(f"at most as slow to the last digit: {strictly} of {tried}")
    return check


def check_reach(rows, blocks):
    """Half of the least peak that PyTorch reaches, or what it was possible to reach."""
    check = Check("half", "half of PyTorch's least peak")
    for model, kind in blocks:
        least, mine = rows.least_peer(model, kind), [r for r in rows.neap(model, kind) if "peak" in r]
        if least is None or not mine:
            continue
        best = min(mine, key=lambda r: (r["peak"], r["ms"]))
        price = percent(best["ms"], rows.store_all(best)[0])
        text = (f"{model} {kind}: {mib(best['peak'])} MiB is {best['peak'] / least:.2f} of PyTorch's least, {mib(least)} MiB; "
                f"{price or '?'} time")
        check.expect((model, kind), best["peak"] <= least / 2, text, note=True)
    return check


def check_prediction(neap):
    check = Check("time", "exact mode: planned time within 2%, with copies 3%")
    worst = 0.0
    for row in neap:
        if row["kind"] != "eager" or not row.get("predicted_ms") or "peak" not in row or "ms" not in row:
            continue
        error = row["ms"] / row["predicted_ms"] - 1
        limit = PREDICTION_WITH_COPIES if row["offload"] else PREDICTION
        worst = max(worst, abs(error))
        check.expect(row, abs(error) <= limit,
                     f"{title(row)}: {row['ms']:.2f} ms, planned {row['predicted_ms']:.2f}, {error:+.1%}")
    if check.results:
        check.notes.append(f"largest error {worst:.2%}")
    return check


def repeated(row):
    """For each gradient and buffer of a row, whether all of its steps gave the same bits."""
    again = row.get("again") or []
    runs = [again["bits"]] if isinstance(again, dict) else again
    return [all(bits == other for other in others) for bits, *others in zip(row["result"]["bits"], *runs)]


def check_bits(rows, neap):
    check = Check("bits", "exact mode: gradients and statistics equal to store-all's bits wherever it repeats itself")
    for row in neap:
        base = rows.get(row["model"], "eager", "neap store-all")
        if row["kind"] != "eager" or row is base or not base or not base.get("again") or "result" not in row:
            continue
        if row.get("split"):
            check.notes.append(f"{title(row)}: not compared, {row['split']} ops run in parts")
            continue
        first, mine, steady = base["result"]["bits"], row["result"]["bits"], repeated(base)
        same = sum(r and a == b for r, a, b in zip(steady, first, mine))
        check.expect(row, len(first) == len(mine) and same == sum(steady),
                     f"{title(row)}: {same} of {sum(steady)} that repeat, of {len(first)}")
    for row in neap:
        if row["kind"] == "eager" and row["name"] == "neap store-all" and row.get("again"):
            first, steady = row["result"]["bits"], repeated(row)
            note = f"{row['model']}: store-all repeats {sum(steady)} of {len(first)}"
            for name in ("aot_eager 1", "eager"):
                peer = rows.get(row["model"], "eager", name)
                if peer and "result" in peer:
                    equal = sum(r and a == b for r, a, b in zip(steady, first, peer["result"]["bits"]))
                    note += f"; {equal} of them equal to {name.split()[0]}'s"
            check.notes.append(note)
    return check


def check_results(rows):
    """Loss and norm of the gradients, for networks that draw no random numbers."""
    check = Check("", "loss and gradients as in plain eager (networks without random ops)")
    for row in rows.good():
        base = rows.get(row["model"], "eager", "eager")
        if row.get("random") or not base or "result" not in base or "result" not in row or row is base:
            continue
        errors = [abs(row["result"][k] / base["result"][k] - 1) for k in ("loss", "norm")]
        check.expect(row, errors[0] <= SAME_LOSS and errors[1] <= SAME_NORM,
                     f"{title(row)}: loss differs by {errors[0]:.1e}, norm of the gradients by {errors[1]:.1e}")
    return check


def check_reserved(neap):
    check = Check("strict", "strict: reserved at most 1.02 of the budget")
    for row in neap:
        if row["strict"] and row.get("budget") and "reserved" in row:
            ratio = row["reserved"] / row["budget"]
            check.expect(row, ratio <= STRICT,
                         f"{title(row)}: {mib(row['reserved'])} of {mib(row['budget'])} MiB, {ratio:.3f}")
    return check


def check_outside(rows, neap):
    check = Check("", "strict: no memory beside PyTorch's allocator")
    for row in neap:
        base = rows.get(row["model"], "eager", "eager")
        if row["strict"] and "outside" in row and base and "outside" in base:
            more = row["outside"] - base["outside"]
            check.expect(row, more <= OUTSIDE, f"{title(row)}: {mib(more)} MiB more than plain eager")
    return check


def check_bridge(rows, blocks):
    check = Check("store-all", "store-all through neap at most 1% slower than PyTorch on the same kernels")
    for model, kind in blocks:
        row = rows.get(model, kind, "neap store-all")
        peer = rows.get(model, kind, "aot_eager 1" if kind == "eager" else "inductor 1")
        if row and peer and "ms" in row and "ms" in peer:
            text = f"{title(row)}: {row['ms']:.2f} ms, {percent(row['ms'], peer['ms'])} on {peer['name']}"
            plain = rows.get(model, kind, "eager")
            if plain and "ms" in plain:
                text += f", {percent(row['ms'], plain['ms'])} on plain eager"
            check.expect(row, row["ms"] <= peer["ms"] * (1 + BRIDGE), text, note=True)
    return check


def check_first(neap):
    check = Check("first", "first step under 20 s (GPT-2 xl excepted)")
    for row in neap:
        if not row["fresh"] and row["model"] != "gpt2_xl":
            compiling = row.get("seconds", {}).get("compiling", 0.0)
            more = f", {row['first'] - compiling:.1f} s without Inductor's compiling" if compiling else ""
            check.expect(row, row["first"] < FIRST, f"{title(row)}: {row['first']:.1f} s{more} {row.get('seconds', '')}")
    return check


def check_start(rows, neap):
    check = Check("from cache", "first step of a new process under 2 s, from the cache")
    for row in neap:
        if row["fresh"]:
            text = f"{title(row)}: {row['first']:.1f} s {row.get('seconds', '')}"
            peer = rows.get(row["model"], row["kind"], "aot_eager 1" if row["kind"] == "eager" else "inductor 1")
            if peer and "first" in peer:
                text += f"; {peer['name']} takes {peer['first']:.1f} s"
            check.expect(row, row["first"] < FROM_CACHE, text)
    return check


def check_failed(rows):
    check = Check("ran", "neap's rows ran")
    for row in rows.rows.values():
        if row["way"] == "neap":
            check.expect(row, "error" not in row, f"{title(row)}: {row.get('error')}")
    return check


def check_left(rows):
    """Bytes in use before the first step: what an earlier row left would count for this one."""
    check = Check("", "nothing of an earlier row left in memory")
    least = {}
    for row in rows.good():
        if "base" in row and not row["fresh"]:
            least[row["model"]] = min(row["base"], least.get(row["model"], row["base"]))
    for row in rows.good():
        if "base" in row and not row["fresh"]:
            more = row["base"] - least[row["model"]]
            check.expect(row, more <= LEFT_BEHIND, f"{title(row)}: {mib(more)} MiB more in use before it")
    return check
