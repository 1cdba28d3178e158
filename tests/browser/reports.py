"""The reports that the browser tests open, all made by the command `neap`."""

import json
import os
import subprocess

TIMEOUT = 120

# Names that would do harm as markup, as text in another direction, or by their length.
HOSTILE = [
    "<script>window.harmed = 1</script>",
    "<img src=x onerror='window.harmed = 2'>",
    '"><svg onload=window.harmed=3>',
    "</script><script>window.harmed = 4</script>",
    "<!--",
    "a\nb\r\nc\tde\u001b[31mred",
    "c1\u0085next\u009bline",
    "\u202eright to left\u202c \u2067isolated\u2069 \u200fmark",
    "\u2028line\u2029paragraph\ufeff",
    "&lt;b&gt; &amp; &quot;",
    "__proto__",
    "constructor",
    "\U0001f600 \u0645\u0631\u062d\u0628\u0627 \u4f60\u597d",
    "x" * 10240,
    "",
    "'; DROP TABLE ops; --",
]


class Reports:
    """Makes each report when it is first asked for."""

    def __init__(self, neap, folder):
        self.neap = neap
        self.folder = folder
        self.made = {}

    def run(self, *arguments):
        done = subprocess.run(
            [self.neap, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TIMEOUT,
            cwd=self.folder,
            check=False,
        )
        if done.returncode != 0:
            text = done.stderr.decode("utf-8", "replace").strip()
            raise AssertionError(f"neap {' '.join(arguments)}: exit {done.returncode}: {text}")
        return done.stdout.decode("utf-8")

    def _make(self, name, *arguments):
        """The path of the report; with --json also what the command printed."""
        if name not in self.made:
            path = os.path.join(self.folder, name + ".html")
            output = self.run(*arguments, path)
            self.made[name] = path, json.loads(output) if "--json" in arguments else None
        return self.made[name]

    def plan(self):
        """A plan for a small ResNet, and its numbers as `neap plan --json` prints them."""
        model = ("resnet18", "--batch", "8", "--budget", "50%")
        return self._make("plan", "plan", *model, "--time-limit", "2s", "--json", "--report")

    def link(self):
        """A plan that moves tensors to the host and back, both ways at once, with an optimizer."""
        model = ("gpt2", "--batch", "1", "--seq", "64", "--budget", "60%", "--optimizer", "adam")
        link = ("--link", "50GB/s", "--duplex", "--time-limit", "3s")
        return self._make("link", "plan", *model, *link, "--json", "--report")

    def curve(self):
        """Several methods at several budgets."""
        methods = "neap,sqrt,greedy,hong,hong-quadratic,revolve"
        model = ("resnet18", "--batch", "4", "--method", methods, "--points", "5")
        return self._make("curve", "report", *model, "--time-limit", "1s", "-o")[0]

    def comparison(self):
        """Methods at one budget, one of which has no plan; and what `neap compare --json` prints."""
        model = ("resnet18", "--batch", "4", "--budget", "80%", "--method", "neap,store-all,sqrt,greedy,hong")
        return self._make("comparison", "compare", *model, "--time-limit", "1s", "--json", "--report")

    def train(self):
        model = ("resnet18", "--batch", "2", "--image", "32", "--steps", "5", "--budget", "80%")
        return self._make("train", "train", *model, "--time-limit", "1s", "--report")[0]

    def ten_thousand(self):
        model = ("lstm", "--seq", "280", "--budget", "60%", "--points", "0")
        return self._make("ops10k", "report", *model, "--time-limit", "2s", "-o")[0]

    def hundred_thousand(self):
        model = ("lstm", "--seq", "2800", "--budget", "60%", "--points", "0")
        return self._make("ops100k", "report", *model, "--method", "sqrt", "-o")[0]

    def hostile(self):
        graph = os.path.join(self.folder, "hostile.json")
        with open(graph, "w", encoding="utf-8") as file:
            json.dump(hostile_graph(), file)
        limits = ("--budget", "80%", "--points", "0", "--time-limit", "1s")
        return self._make("hostile", "report", graph, *limits, "-o")[0]


def hostile_graph():
    """A chain with a backward pass whose every name is one of HOSTILE."""
    count = len(HOSTILE)
    values = [{"name": HOSTILE[0], "bytes": 64, "kind": "input"}]
    ops = []

    def op(name, kind, inputs):
        values.append({"name": name, "bytes": 1 << 20, "kind": kind})
        way = "forward" if kind == "activation" else "backward"
        ops.append(
            {
                "name": name, "type": "copy", "pass": way, "inputs": inputs, "outputs": [len(values) - 1],
                "time": 1e-3, "workspace": 4096,
            }  # fmt: skip
        )
        return len(values) - 1

    made = [0]
    for i in range(count):
        made.append(op(HOSTILE[i] + (str(i) if i < count // 2 else ""), "activation", [made[-1]]))
    last = op("loss" + HOSTILE[0], "activation", [made[-1]])
    for i in reversed(range(count)):
        last = op(HOSTILE[i] + ".bw", "gradient", [last, made[i]])
    return {
        "neap": "graph", "version": 1, "name": HOSTILE[1], "fixed_bytes": 100, "values": values,
        "ops": ops, "outputs": [last],
    }  # fmt: skip
