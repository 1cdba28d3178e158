"""Rows of bench/torch_gpu: their file and their table."""

import json
import os

import common
from common import MIB

SLOWER = 0.01  # what counts as equal: steps vary, and the bridge itself may take this much


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
        return [row for (m, k, _), row in list(self.rows.items())
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


def as_good(row, peer, slower=SLOWER):
    """Whether a row has no higher peak than PyTorch's and is not slower."""
    return row.get("peak", 0) <= peer["peak"] and row["ms"] <= peer["ms"] * (1 + slower)


def best_peers(rows, model, kind):
    """PyTorch's rows that no other of its rows beats in both peak and time, with these kernels."""
    peers = [p for p in rows.peers(model, kind) if p["kind"] == kind and "peak" in p]
    return [p for p in peers if not any(q["peak"] <= p["peak"] and q["ms"] < p["ms"] for q in peers)]


def title(row):
    return f"{row['model']} {row['kind']} {row['name']}"


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
    ms = row.get("ms")  # a new process only runs its first step
    return [*begin, mib(row.get("budget")) + least, mib(row.get("peak")), mib(row.get("reserved")),
            f"{ms:.2f}" if ms else "", percent(ms, plain), percent(ms, own),
            f"{planned:.2f}" if planned else "", mib(row.get("predicted_peak")), f"{row['first']:.1f}"]


def line(rows, row):
    """A row as it is measured."""
    begin = f"{row['model']:<12} {row['kind']:<8} {row['name']:<26} "
    if "error" in row:
        return begin + row["error"]
    parts = [f"{row['ms']:9.2f} ms" if "ms" in row else "", f"first {row['first']:6.1f} s"]
    if "peak" in row:
        parts.append(f"peak {mib(row['peak'])} reserved {mib(row['reserved'])} MiB")
    if row.get("budget"):
        parts.append(f"budget {mib(row['budget'])}{' (least)' if row.get('refused') else ''}")
    if row.get("predicted_ms"):
        parts.append(f"planned {row['predicted_ms']:.2f} ms {mib(row['predicted_peak'])} MiB")
        parts.append(f"{row['plans']} plans" if row["plans"] > row["graphs"] else "")
        parts.append(f"{row['split']} ops in parts" if row.get("split") else "")
    plain, _ = rows.store_all(row)
    parts.append(percent(row.get("ms"), plain))
    return begin + ", ".join(part for part in parts if part)


def print_rows(rows, order):
    ordered = sorted(rows.rows.values(), key=lambda r: (order.index(r["model"]), r["kind"], r["way"] == "neap"))
    common.print_table(HEAD, [cells(rows, row) for row in ordered])
    if any(row.get("refused") for row in ordered):
        print("* the least budget that works; less was asked for")
    for row in ordered:
        if "error" in row:
            print(f"failed: {title(row)}: {row['error']}")
