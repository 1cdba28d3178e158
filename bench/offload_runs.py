"""What the benches of offloading share: plans over a V100's link, and how their cells look."""

import json
import subprocess

LINK = ("--device", "v100", "--link", "12.2GB/s")


def solve(neap, network, method, budget, *words):
    """The figures of `neap plan` for a built-in network and a budget in percent; None if there is no plan."""
    command = [neap, "plan", network, *LINK, "--method", method, "--budget", f"{budget}%", "--json", *map(str, words)]
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    found = json.loads(run.stdout) if run.stdout else {}
    return found if found.get("time") else None


def placed(found):
    """Whether a plan has addresses within the budget."""
    return bool(found and found["arena_bytes"] and found["arena_bytes"] <= found["budget_bytes"])


def cell(found):
    """Milliseconds, and the arena compared with the live peak."""
    if not found:
        return "-"
    arena = f"{found['arena_bytes'] / found['peak_bytes']:.3f}" if placed(found) else "none"
    return f"{1000 * found['time']:.2f} ({arena})"


def numbers(text):
    return [int(word) for word in text.split(",")]
