"""Rows of bench/torch_gpu: their file, their table, and the checks at the end."""

import json
import os

import common
from common import MIB

PREDICTION, PREDICTION_WITH_COPIES = 0.02, 0.03  # real time against the planned
STRICT = 1.02  # reserved against the budget
BRIDGE = 0.01  # neap without a budget against PyTorch on the same kernels
FIRST, FROM_CACHE = 20.0, 2.0  # seconds
SAME_LOSS, SAME_NORM = 1e-3, 1e-2  # relative, against plain eager
LEFT_BEHIND = 64 * MIB
OUTSIDE = 512 * MIB  # kernels are loaded when they are first used


class Rows:
    """All rows, by network, kernels and name; a later row replaces an earlier one."""

    def __init__(self, path=None):
        self.path = path
        self.rows = {}
        if path and os.path.exists(path):
            with open(path, encoding="utf-8") as file:
                for line in file:
                    if line.strip():
                        self._put(json.loads(line))

    def _put(self, row):
        self.rows[row["model"], row["kind"], row["name"]] = row

    def add(self, row):
        self._put(row)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def get(self, model, kind, name):
        return self.rows.get((model, kind, name))

    def good(self, model=None, kind=None):
        """The rows that were measured."""
        return [row for (m, k, _), row in self.rows.items()
                if "error" not in row and model in (None, m) and kind in (None, k)]

    def peers(self, model, kind):
        """What PyTorch reaches with these kernels: eager ones, or any with Inductor."""
        return [r for r in self.good(model) if r["way"] != "neap" and kind in (r["kind"], "inductor")]

    def neap(self, model, kind):
        return [r for r in self.good(model, kind) if r["way"] == "neap" and not r["fresh"]]

    def least_peer(self, model, kind):
        peaks = [row["peak"] for row in self.peers(model, kind) if "peak" in row]
        return min(peaks, default=None)

    def store_all(self, row):
        """Steps that keep everything: PyTorch's own, and that of the row's own path."""
        eager = row["kind"] == "eager"
        plain = self._ms(row, "eager" if eager else "inductor 1")
        if row["way"] == "neap":
            return plain, self._ms(row, "neap store-all")
        return plain, self._ms(row, "aot_eager 1") if eager and row["way"] == "knob" else plain

    def _ms(self, row, name):
        found = self.get(row["model"], row["kind"], name)
        return found.get("ms") if found else None


def mib(size):
    return "" if size is None else f"{size / MIB:,.0f}"


def percent(new, old):
    return "" if not new or not old else f"{(new / old - 1) * 100:+.1f}%"


HEAD = ["network", "kernels", "way", "budget MiB", "peak MiB", "reserved MiB", "ms", "vs PyTorch", "vs store-all",
        "planned ms", "planned MiB", "first s"]


def cells(rows, row):
    plain, own = rows.store_all(row)
    begin = [row["model"], row["kind"], row["name"]]
    if "error" in row:
        return [*begin, mib(row.get("budget")), "", "", "-", *[""] * 5]
    planned = row.get("predicted_ms")
    least = "*" if row.get("refused") else ""
    return [*begin, mib(row.get("budget")) + least, mib(row.get("peak")), mib(row.get("reserved")),
            f"{row['ms']:.2f}", percent(row["ms"], plain), percent(row["ms"], own),
            f"{planned:.2f}" if planned else "", mib(row.get("predicted_peak")), f"{row['first']:.1f}"]


def line(rows, row):
    """A row as it is measured."""
    begin = f"{row['model']:<12} {row['kind']:<8} {row['name']:<26} "
    if "error" in row:
        return begin + row["error"]
    parts = [f"{row['ms']:9.2f} ms", f"first {row['first']:6.1f} s"]
    if "peak" in row:
        parts.append(f"peak {mib(row['peak'])} reserved {mib(row['reserved'])} MiB")
    if row.get("budget"):
        parts.append(f"budget {mib(row['budget'])}{' (least)' if row.get('refused') else ''}")
    if row.get("predicted_ms"):
        parts.append(f"planned {row['predicted_ms']:.2f} ms {mib(row['predicted_peak'])} MiB")
        parts.append(f"{row['plans']} plans" if row["plans"] > row["graphs"] else "")
        parts.append(f"{row['split']} ops in parts" if row.get("split") else "")
    plain, _ = rows.store_all(row)
    parts.append(percent(row["ms"], plain))
    return begin + ", ".join(part for part in parts if part)


def print_rows(rows, order):
    ordered = sorted(rows.rows.values(), key=lambda r: (order.index(r["model"]), r["kind"], r["way"] == "neap"))
    common.print_table(HEAD, [cells(rows, row) for row in ordered])
    if any(row.get("refused") for row in ordered):
        print("* the least budget that works; less was asked for")
    for row in ordered:
        if "error" in row:
            print(f"failed: {title(row)}: {row['error']}")


# ---- checks ----


class Check:
    """A promise, the rows it was tried on, and those that break it."""

    def __init__(self, promise):
        self.promise = promise
        self.tried = 0
        self.broken = []
        self.notes = []

    def expect(self, holds, message):
        self.tried += 1
        if not holds:
            self.broken.append(message)

    def print(self):
        if not self.tried:
            print(f"  --      {self.promise}: no rows")
            return
        verdict = "ok" if not self.broken else "BROKEN"
        print(f"  {verdict:<8}{self.promise}: {self.tried - len(self.broken)} of {self.tried}")
        for message in self.broken + self.notes:
            print(f"          {message}")


def title(row):
    return f"{row['model']} {row['kind']} {row['name']}"


def print_checks(rows):
    blocks = sorted({(model, kind) for model, kind, _ in rows.rows})
    neap = [row for row in rows.good() if row["way"] == "neap"]
    print("\nchecks")
    for check in (
        check_peak(neap, "peak", ""),
        check_peak(neap, "first_peak", "first step, measuring included: "),
        check_peers(rows, blocks),
        check_best(rows, blocks),
        check_reach(rows, blocks),
        check_prediction(neap),
        check_bits(rows, neap),
        check_results(rows),
        check_reserved(neap),
        check_outside(rows, neap),
        check_bridge(rows, blocks),
        check_first(neap),
        check_start(rows, neap),
        check_left(rows),
    ):
        check.print()


def check_peak(neap, field, what):
    check = Check(f"{what}peak at most the budget")
    for row in neap:
        if row.get("budget") and field in row:
            over = row[field] - row["budget"]
            check.expect(over <= 0, f"{title(row)}: {over / MIB:.1f} MiB above {mib(row['budget'])} MiB")
    return check


def check_peers(rows, blocks):
    check = Check("PyTorch is not faster at the same peak or less")
    for model, kind in blocks:
        for row in rows.neap(model, kind):
            if "peak" not in row or not row.get("budget"):
                continue
            better = [p for p in rows.peers(model, kind) if p["peak"] <= row["peak"] and p["ms"] < row["ms"]]
            best = min(better, key=lambda p: p["ms"], default=None)
            check.expect(best is None, best and f"{title(row)}: {row['ms']:.2f} ms at {mib(row['peak'])} MiB; PyTorch is "
                         f"faster with {best['kind']} {best['name']}: {best['ms']:.2f} ms at {mib(best['peak'])} MiB, "
                         f"{percent(best['ms'], row['ms'])}")
    return check


def best_peers(rows, model, kind):
    """PyTorch's rows that no other of its rows beats in both peak and time, with these kernels."""
    peers = [p for p in rows.peers(model, kind) if p["kind"] == kind and "peak" in p]
    return [p for p in peers if not any(q["peak"] <= p["peak"] and q["ms"] < p["ms"] for q in peers)]


def check_best(rows, blocks):
    check = Check("neap is not slower at a peak that PyTorch reaches")
    for model, kind in blocks:
        mine = [r for r in rows.neap(model, kind) if "peak" in r]
        for peer in best_peers(rows, model, kind) if mine else []:
            best = min((r for r in mine if r["peak"] <= peer["peak"]), key=lambda r: r["ms"], default=None)
            there = f"{best['name']} {best['ms']:.2f} ms, {percent(best['ms'], peer['ms'])}" if best else "nothing"
            check.expect(best and best["ms"] <= peer["ms"], f"{title(peer)}: {peer['ms']:.2f} ms at {mib(peer['peak'])} MiB; "
                         f"neap has {there}")
    return check


def check_reach(rows, blocks):
    """Half of the least peak that PyTorch reaches, or what it was possible to reach."""
    check = Check("half of PyTorch's least peak")
    for model, kind in blocks:
        least, mine = rows.least_peer(model, kind), [r for r in rows.neap(model, kind) if "peak" in r]
        if least is None or not mine:
            continue
        best = min(mine, key=lambda r: (r["peak"], r["ms"]))
        price = percent(best["ms"], rows.store_all(best)[0])
        text = (f"{model} {kind}: {mib(best['peak'])} MiB is {best['peak'] / least:.2f} of PyTorch's least, {mib(least)} MiB; "
                f"{price or '?'} time")
        check.expect(best["peak"] <= least / 2, text)
        if best["peak"] <= least / 2:
            check.notes.append(text)
    return check


def check_prediction(neap):
    check = Check("exact mode: planned time within 2%, with copies 3%")
    worst = 0.0
    for row in neap:
        if row["kind"] != "eager" or not row.get("predicted_ms") or "peak" not in row:
            continue
        error = row["ms"] / row["predicted_ms"] - 1
        limit = PREDICTION_WITH_COPIES if row["offload"] else PREDICTION
        worst = max(worst, abs(error))
        check.expect(abs(error) <= limit, f"{title(row)}: {row['ms']:.2f} ms, planned {row['predicted_ms']:.2f}, {error:+.1%}")
    if check.tried:
        check.notes.append(f"largest error {worst:.2%}")
    return check


def check_bits(rows, neap):
    check = Check("exact mode: gradients and statistics equal to store-all's bits wherever it repeats itself")
    for row in neap:
        base = rows.get(row["model"], "eager", "neap store-all")
        if row["kind"] != "eager" or row is base or not base or "again" not in base or "result" not in row:
            continue
        if row.get("split"):
            check.notes.append(f"{title(row)}: not compared, {row['split']} ops run in parts")
            continue
        first, second, mine = base["result"]["bits"], base["again"]["bits"], row["result"]["bits"]
        repeated = [a == b for a, b in zip(first, second)]
        same = sum(r and a == b for r, a, b in zip(repeated, first, mine))
        check.expect(len(first) == len(mine) and same == sum(repeated),
                     f"{title(row)}: {same} of {sum(repeated)} that repeat, of {len(first)}")
    for row in neap:
        if row["kind"] == "eager" and row["name"] == "neap store-all" and "again" in row:
            first, second = row["result"]["bits"], row["again"]["bits"]
            note = f"{row['model']}: store-all repeats {sum(a == b for a, b in zip(first, second))} of {len(first)}"
            peer = rows.get(row["model"], "eager", "aot_eager 1")
            if peer and "result" in peer:
                equal = sum(a == b for a, b in zip(first, peer["result"]["bits"]))
                note += f"; {equal} equal to aot_eager's"
            check.notes.append(note)
    return check


def check_results(rows):
    """Loss and norm of the gradients, for networks that draw no random numbers."""
    check = Check("loss and gradients as in plain eager (networks without random ops)")
    for row in rows.good():
        base = rows.get(row["model"], "eager", "eager")
        if row.get("random") or not base or "result" not in base or "result" not in row or row is base:
            continue
        errors = [abs(row["result"][k] / base["result"][k] - 1) for k in ("loss", "norm")]
        check.expect(errors[0] <= SAME_LOSS and errors[1] <= SAME_NORM,
                     f"{title(row)}: loss differs by {errors[0]:.1e}, norm of the gradients by {errors[1]:.1e}")
    return check


def check_reserved(neap):
    check = Check("strict: reserved at most 1.02 of the budget")
    for row in neap:
        if row["strict"] and row.get("budget") and "reserved" in row:
            ratio = row["reserved"] / row["budget"]
            check.expect(ratio <= STRICT, f"{title(row)}: {mib(row['reserved'])} of {mib(row['budget'])} MiB, {ratio:.3f}")
    return check


def check_outside(rows, neap):
    check = Check("strict: no memory beside PyTorch's allocator")
    for row in neap:
        base = rows.get(row["model"], "eager", "eager")
        if row["strict"] and "outside" in row and base and "outside" in base:
            more = row["outside"] - base["outside"]
            check.expect(more <= OUTSIDE, f"{title(row)}: {mib(more)} MiB more than plain eager")
    return check


def check_bridge(rows, blocks):
    check = Check("store-all through neap at most 1% slower than PyTorch on the same kernels")
    for model, kind in blocks:
        row = rows.get(model, kind, "neap store-all")
        peer = rows.get(model, kind, "aot_eager 1" if kind == "eager" else "inductor 1")
        if row and peer and "ms" in row and "ms" in peer:
            text = f"{title(row)}: {row['ms']:.2f} ms, {percent(row['ms'], peer['ms'])} on {peer['name']}"
            plain = rows.get(model, kind, "eager")
            if plain and "ms" in plain:
                text += f", {percent(row['ms'], plain['ms'])} on plain eager"
            holds = row["ms"] <= peer["ms"] * (1 + BRIDGE)
            check.expect(holds, text)
            if holds:
                check.notes.append(text)
    return check


def check_first(neap):
    check = Check("first step under 20 s (GPT-2 xl excepted)")
    for row in neap:
        if not row["fresh"] and row["model"] != "gpt2_xl":
            check.expect(row["first"] < FIRST, f"{title(row)}: {row['first']:.1f} s {row.get('seconds', '')}")
    return check


def check_start(rows, neap):
    check = Check("first step of a new process under 2 s, from the cache")
    for row in neap:
        if row["fresh"]:
            text = f"{title(row)}: {row['first']:.1f} s {row.get('seconds', '')}"
            peer = rows.get(row["model"], row["kind"], "aot_eager 1" if row["kind"] == "eager" else "inductor 1")
            if peer and "first" in peer:
                text += f"; {peer['name']} takes {peer['first']:.1f} s"
            check.expect(row["first"] < FROM_CACHE, text)
    return check


def check_left(rows):
    """Bytes in use before the first step: what an earlier row left would count for this one."""
    check = Check("nothing of an earlier row left in memory")
    least = {}
    for row in rows.good():
        if "base" in row and not row["fresh"]:
            least[row["model"]] = min(row["base"], least.get(row["model"], row["base"]))
    for row in rows.good():
        if "base" in row and not row["fresh"]:
            more = row["base"] - least[row["model"]]
            check.expect(more <= LEFT_BEHIND, f"{title(row)}: {mib(more)} MiB more in use before it")
    return check
