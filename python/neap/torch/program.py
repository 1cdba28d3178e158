"""From a plan to two fx graphs, forward and backward, whose nodes stand in the order of the plan.

A recomputed op occurs once for each run. A value dies after its last reader, as the plan's frees say. Besides
the ops of the model the graphs call the functions of `runtime`: copies to the host and back, random states,
convolutions in parts. What the backward pass needs of the forward pass is returned by one and read by the
other ("saved").
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from ..errors import InternalError
from ..planning import Plan
from . import runtime
from .batch_norm import AGAIN, count
from .joint import JointGraph, Unit, is_random, overwritten_inputs, takes_statistics
from .split import can_split

Step = tuple[str, int, int]


@dataclass
class Program:
    """The two passes. Both modules take and return what AOTAutograd expects of a partition."""

    forward: fx.GraphModule
    backward: fx.GraphModule
    outputs: int  # results of the forward pass that go to the caller; the others are saved
    updates: list[tuple[int, int]]  # buffers among the forward pass's inputs, and their new values among its results


def first_runs(plan: Plan) -> list[int]:
    """The ops in the order of their first runs."""
    seen: dict[int, None] = {}
    for kind, op, _ in plan.steps:
        if kind == "compute":
            seen.setdefault(op)
    return list(seen)


def build(joint: JointGraph, plan: Plan) -> Program:
    """The program of a plan for the graph that `joint` describes."""
    steps = list(plan.steps)
    border = next(i for i, step in enumerate(steps) if step[0] == "compute" and step[1] == joint.boundary)
    history = _History(_repeated(joint, steps))
    forward, backward = _Pass(joint, history), _Pass(joint, history)
    for node in joint.primals:
        forward.add_placeholder(node)
    forward.run(steps[:border])
    outputs = forward.results(joint.forward_outputs)
    saved = forward.hand_over(_needs(joint, steps[border + 1:]), backward)
    for node in joint.tangents:
        backward.add_placeholder(node)
    backward.run(steps[border + 1:])
    gradients = backward.results(joint.backward_outputs)
    return Program(forward.finish(outputs + saved), backward.finish(gradients), len(outputs), _updates(joint))


def _updates(joint: JointGraph) -> list[tuple[int, int]]:
    """Where batch norms' running statistics and counters are passed, and where their new values are returned.

    Nothing else computes these values, so that they share no memory with any input.
    """
    output = next(iter(joint.module.graph.find_nodes(op="output")))
    overwritten = overwritten_inputs(output, joint.primals)
    return [(joint.primals.index(buffer), joint.forward_outputs.index(value)) for buffer, value in overwritten.items()
            if isinstance(value, fx.Node) and (takes_statistics(value) or _is_counter(value))]


def _is_counter(value: fx.Node) -> bool:
    return value.target is operator.getitem and value.args[0].target is count


@dataclass
class _History:
    """What has happened so far, in both passes."""

    repeated: set[int]  # units that run more than once
    ran: set[int] = field(default_factory=set)


def _repeated(joint: JointGraph, steps: Sequence[Step]) -> set[int]:
    once: set[int] = set()
    twice: set[int] = set()
    for kind, op, _ in steps:
        if kind == "compute":
            (twice if op in once else once).add(op)
    return twice


@dataclass
class _Needs:
    """What a list of steps uses of what is there before it."""

    device: set[int] = field(default_factory=set)
    host: set[int] = field(default_factory=set)
    states: set[int] = field(default_factory=set)  # random units that run


def _needs(joint: JointGraph, steps: Sequence[Step]) -> _Needs:
    needs = _Needs()
    made = set(joint.units[joint.boundary].outputs)
    sent: set[int] = set()

    def read(value: int) -> None:
        if value < len(joint.values) and value not in made:
            needs.device.add(value)

    for kind, what, _ in steps:
        if kind == "compute":
            unit = joint.units[what]
            for value in joint.read_again(unit):
                read(value)
            made.update(unit.outputs)
            if unit.random:
                needs.states.add(unit.id)
        elif kind == "offload":
            read(what)
            sent.add(what)
        elif kind == "prefetch":
            if what not in sent:
                needs.host.add(what)
            made.add(what)
    for node in joint.backward_outputs:
        if isinstance(node, fx.Node) and node in joint.value_of:
            read(joint.value_of[node])
    return needs


class _Pass:
    """One of the two fx graphs while it is built."""

    def __init__(self, joint: JointGraph, history: _History) -> None:
        self.joint = joint
        self.history = history
        self.graph = fx.Graph()
        self.at: dict[int, fx.Node] = {}  # value -> the node that holds it now
        self.on_host: dict[int, fx.Node] = {}
        self.leaving: dict[int, fx.Node] = {}  # values whose copy to the host may be under way
        self.arriving: set[int] = set()
        self.states: dict[int, fx.Node] = {}  # random unit -> its generator's state before the first run
        self.statistics: dict[fx.Node, fx.Node] = {}
        self.other: dict[fx.Node, fx.Node] = {}  # attributes, and placeholders that are no tensors

    def add_placeholder(self, node: fx.Node) -> None:
        copy = self._placeholder(node.name, node)
        if node in self.joint.value_of:
            self.at[self.joint.value_of[node]] = copy
        else:
            self.other[node] = copy

    def _placeholder(self, name: str, like: fx.Node) -> fx.Node:
        copy = self.graph.placeholder(name)
        copy.meta = dict(like.meta)
        return copy

    def lookup(self, node: object) -> fx.Node | None:
        """The node of this graph that now holds what `node` of the joint graph holds."""
        if not isinstance(node, fx.Node):
            return None
        if node in self.joint.value_of:
            value = self.joint.value_of[node]
            if value in self.at:
                return self.at[value]
        if node.op == "call_function":
            raise InternalError(f"the plan reads {node.name} where it is not in memory")
        if node not in self.other:
            self.other[node] = self.graph.node_copy(node)
        return self.other[node]

    # ---- steps ----

    def run(self, steps: Sequence[Step]) -> None:
        for kind, what, variant in steps:
            if kind == "compute":
                self._compute(self.joint.units[what], variant)
            elif what >= len(self.joint.values):
                pass  # it has no bytes and only orders ops
            elif kind == "free":
                self._free(what)
            elif kind == "offload":
                source = self.at[what]
                self._await([what])
                self.on_host[what] = self.leaving[what] = self._call(runtime.offload, (source,), source)
            else:
                host = self.on_host[what]
                self.at[what] = self._call(runtime.prefetch, (host, host.meta["val"].device), host)
                self.arriving.add(what)

    def _call(self, function: Callable, arguments: tuple, like: fx.Node) -> fx.Node:
        node = self.graph.call_function(function, arguments)
        node.meta = {key: like.meta[key] for key in ("val", "stack_trace") if key in like.meta}
        return node

    def _await(self, values: Sequence[int]) -> None:
        for value in values:
            if value in self.arriving:
                self.arriving.remove(value)
                self._call(runtime.wait, (self.at[value],), self.at[value])

    def _free(self, value: int) -> None:
        if value in self.leaving:  # its bytes may be used again when the copy has ended
            self._call(runtime.release, (self.at[value], self.leaving.pop(value)), self.at[value])
        self._await([value])
        self.at.pop(value, None)

    def _compute(self, unit: Unit, variant: int) -> None:
        again = unit.id in self.history.ran
        self.history.ran.add(unit.id)
        if unit.renames:
            for node in unit.nodes:
                self.at[self.joint.value_of[node]] = self.statistics[node]
            return
        self._await([*unit.inputs, *unit.outputs])  # what it computes again may be on its way
        if unit.random and not again and unit.id in self.history.repeated:
            self.states[unit.id] = self._save_state(unit)
        local: dict[fx.Node, fx.Node] = {}

        def source(node: fx.Node) -> fx.Node:
            return local[node] if node in local else self.lookup(node)

        for node in unit.nodes:
            local[node] = self._copy(node, unit, source, variant, again)
        for node in unit.nodes:
            if node in self.joint.value_of:
                self.at[self.joint.value_of[node]] = local[node]
        if not again:
            self._take_statistics(unit, local)

    def _copy(self, node: fx.Node, unit: Unit, source: Callable[[fx.Node], fx.Node], variant: int,
              again: bool) -> fx.Node:
        if again and node.target in AGAIN:
            how = AGAIN[node.target]  # without the running statistics
            arguments = tuple(node.args[position] for position in how.arguments)
            copy = self.graph.call_function(how.op, fx.node.map_arg(arguments, source))
        else:
            copy = self.graph.node_copy(node, source)
        copy.meta = dict(node.meta)
        if again and unit.random and is_random(node):
            copy.args = (self.states[unit.id], copy.target, *copy.args)
            copy.target = runtime.replay
        elif variant > 0 and can_split(node.target):
            copy.args = (unit.variants[variant - 1][0], copy.target, *copy.args)
            copy.target = runtime.split
        return copy

    def _save_state(self, unit: Unit) -> fx.Node:
        value = next(node.meta["val"] for node in unit.nodes if is_random(node))
        tensor = value if isinstance(value, torch.Tensor) else next(v for v in value if isinstance(v, torch.Tensor))
        node = self.graph.call_function(runtime.random_state, (tensor.device,))
        with tensor.fake_mode:
            node.meta["val"] = torch.empty(runtime.STATE_BYTES.get(tensor.device.type, 16), dtype=torch.uint8)
        return node

    def _take_statistics(self, unit: Unit, local: dict[fx.Node, fx.Node]) -> None:
        """The next running statistics come from the first run of a batch norm, whoever asks for them later."""
        norm = unit.nodes[0] if unit.nodes else None
        if norm is not None and norm.target in AGAIN:
            for user in norm.users:
                if user not in local:
                    self.statistics[user] = self.graph.node_copy(user, lambda n: local[n])
                    self.statistics[user].meta = dict(user.meta)

    # ---- from one pass to the next ----

    def hand_over(self, needs: _Needs, later: "_Pass") -> list[fx.Node]:
        """Returns what `later` needs of this pass, and gives it a placeholder for each."""
        saved: list[fx.Node] = []

        def keep(node: fx.Node, name: str) -> fx.Node:
            saved.append(node)
            return later._placeholder(name, node)

        for value in sorted(needs.device | (self.leaving.keys() & needs.host)):
            node = self.joint.values[value].node
            if node is None or node.op != "get_attr":
                self._await([value])
                later.at[value] = keep(self.lookup(node), f"saved_{node.name}")
        for value in sorted(needs.host):
            later.on_host[value] = keep(self.on_host[value], f"host_{value}")
        for unit in sorted(needs.states & self.states.keys()):
            later.states[unit] = keep(self.states[unit], f"state_{unit}")
        later.leaving = {value: later.on_host[value] for value in self.leaving if value in needs.host}
        return saved

    def results(self, nodes: Sequence[object]) -> list[fx.Node | None]:
        """What the caller gets: the nodes of this graph, all of them arrived."""
        self._await([self.joint.value_of[node] for node in nodes
                     if isinstance(node, fx.Node) and node in self.joint.value_of])
        return [self.lookup(node) for node in nodes]

    def finish(self, outputs: list[fx.Node | None]) -> fx.GraphModule:
        self.graph.output(tuple(outputs))
        self.graph.lint()
        return fx.GraphModule(self.joint.module, self.graph)
