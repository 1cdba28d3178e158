"""The joint graph of a training step as a neap graph.

AOTAutograd traces forward and backward into one fx graph. This module describes that graph to the planner:
what each op reads, writes and costs, which values share a storage, and what must hold for the result to
stay the same:

- One op, the boundary, stands for everything between the passes. It reads all outputs of the forward
  pass and gives the tangents, so the forward pass ends before anything of the backward pass that needs
  them.
- An op whose second run would be wrong (a collective, an op with side effects, a reader of a buffer that the
  step overwrites) is computed once.
- Random ops may be recomputed: the program replays their random numbers.

An op of the neap graph is a *unit*: a list of fx nodes that run together. In exact mode that is one node with its
`getitem` nodes; with Inductor's kernels it is what Inductor fuses.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from ..errors import UnsupportedError
from ..graph import Graph
from .batch_norm import AGAIN

aten = torch.ops.aten

# Ops that return their input's storage although their schema does not say so.
_HIDDEN_VIEWS = {aten._unsafe_view.default, aten._reshape_alias.default, aten.lift_fresh.default}

BOUNDARY = "outputs of the forward pass and their gradients"
UPDATE = "optimizer"


@dataclass
class Value:
    """A tensor of the graph. `node` is None for an output of an op that no node reads."""

    id: int
    node: fx.Node | None
    bytes: int
    kind: str
    view_of: int | None = None


@dataclass
class Unit:
    """Fx nodes that run together: an op of the neap graph. The boundary and the update have no nodes."""

    id: int
    name: str
    nodes: list[fx.Node]
    inputs: list[int]
    outputs: list[int]
    backward: bool
    random: bool = False
    once: bool = False  # must not be recomputed
    seconds: float = 0.0
    workspace: int = 0
    renames: bool = False  # its nodes take apart what the first run of another unit gave
    variants: list[tuple[int, float, int]] = field(default_factory=list)  # (parts, seconds, workspace)
    after: list[int] = field(default_factory=list)  # units that must have run first


@dataclass(frozen=True)
class UnitCost:
    """What running a unit costs. `variants` are slower ways with less workspace: (parts, seconds, bytes)."""

    seconds: float
    workspace: int
    variants: tuple[tuple[int, float, int], ...] = ()


class JointGraph:
    """The values and units of a joint fx graph, and its description as a neap graph."""

    def __init__(self, module: fx.GraphModule, forward_outputs: int, rounding: Callable[[int], int],
                 groups: Sequence[Sequence[fx.Node]] | None = None) -> None:
        self.module = module
        self.rounding = rounding
        self.placeholders = [n for n in module.graph.nodes if n.op == "placeholder"]
        self.primals = [n for n in self.placeholders if not is_tangent(n)]
        self.tangents = [n for n in self.placeholders if is_tangent(n)]
        output = next(iter(module.graph.find_nodes(op="output")))
        results = list(output.args[0])
        self.forward_outputs: list[fx.Node | None] = results[:forward_outputs]
        self.backward_outputs: list[fx.Node | None] = results[forward_outputs:]
        self.values: list[Value] = []
        self.units: list[Unit] = []
        self.value_of: dict[fx.Node, int] = {}
        self.mutated = mutated_inputs(output, self.placeholders)
        self.fixed_bytes = 0
        self.later_bytes = 0  # resident from the boundary on: gradients that the backward passes of later graphs made
        _refuse_unsupported(module)
        for node in self.primals:
            self._add_input(node)
        for node in module.graph.nodes:
            if node.op == "get_attr" and isinstance(_attribute(module, node), torch.Tensor):
                self._add_input(node)
        self._add_units(groups if groups is not None else _single_nodes(module))

    # ---- building ----

    def _add_input(self, node: fx.Node) -> None:
        value = node.meta.get("val")
        if node.op == "get_attr":
            value = _attribute(self.module, node)
        if isinstance(value, torch.Tensor):
            kind = "parameter" if value.requires_grad or isinstance(value, torch.nn.Parameter) else "input"
            self._add_value(node, value, kind)

    def _add_value(self, node: fx.Node | None, tensor: torch.Tensor, kind: str, view_of: int | None = None) -> int:
        size = 0 if view_of is not None else self.rounding(storage_bytes(tensor))
        self.values.append(Value(len(self.values), node, size, kind, view_of))
        if node is not None:
            self.value_of[node] = len(self.values) - 1
        return len(self.values) - 1

    def _add_units(self, groups: Iterable[Sequence[fx.Node]]) -> None:
        ordered, first_backward = _split_passes(list(groups), self.tangents)
        outputs = {n for n in self.forward_outputs + self.backward_outputs if isinstance(n, fx.Node)}
        for index, group in enumerate(ordered):
            if index == first_backward:
                self._add_boundary()
            self._add_unit(list(group), index >= first_backward, outputs)
        if first_backward >= len(ordered):
            self._add_boundary()
        self._order_mutations()

    def _add_boundary(self) -> None:
        reads = sorted({self.value_of[n] for n in self.forward_outputs
                        if isinstance(n, fx.Node) and n in self.value_of})
        unit = Unit(len(self.units), BOUNDARY, [], reads, [], backward=True, once=True)
        for node in self.tangents:
            if isinstance(node.meta.get("val"), torch.Tensor):
                unit.outputs.append(self._add_value(node, node.meta["val"], "gradient"))
        self.boundary = unit.id
        self.units.append(unit)

    def _add_unit(self, nodes: list[fx.Node], backward: bool, results: set[fx.Node]) -> None:
        inside = set(nodes)
        reads: list[int] = []
        renames = takes_statistics(nodes[0])
        for node in nodes:
            for source in nodes[0].args[0].users if renames else node.all_input_nodes:
                if source not in inside and source in self.value_of and self.value_of[source] not in reads:
                    reads.append(self.value_of[source])
        unit = Unit(len(self.units), nodes[0].name, nodes, reads, [], backward, renames=renames, once=renames)
        kind = "gradient" if backward else "activation"
        for node in nodes:
            hidden = node not in results and all(user in inside for user in node.users)
            if len(nodes) > 1 and hidden and isinstance(node.meta.get("val"), torch.Tensor):
                continue
            self._add_outputs(unit, node, inside, kind)
        for node in nodes:
            unit.random |= is_random(node)
            unit.once |= self._runs_once(node)
        self.units.append(unit)

    def _add_outputs(self, unit: Unit, node: fx.Node, inside: set[fx.Node], kind: str) -> None:
        value = node.meta.get("val")
        if isinstance(value, torch.Tensor):
            unit.outputs.append(self._add_value(node, value, kind, self._base(node, inside)))
        elif isinstance(value, (tuple, list)):
            for index, part in enumerate(value):
                if isinstance(part, torch.Tensor) and index not in _items_read(node):
                    unit.outputs.append(self._add_value(None, part, kind, self._base(node, inside, index)))

    def _base(self, node: fx.Node, inside: set[fx.Node], index: int = 0) -> int | None:
        """The value whose storage this output of `node` shares, or None if it owns one."""
        while True:
            if node.target is operator.getitem:
                node, index = node.args[0], node.args[1]
                continue
            source = aliased_input(node, index)
            if source is None:
                return None
            if source in self.value_of:
                return self.value_of[source]
            if source not in inside:
                return None
            node, index = source, 0

    def _runs_once(self, node: fx.Node) -> bool:
        if node.target is operator.getitem:
            return False
        if is_impure(node):
            return True
        reads_old = any(source in self.mutated for source in node.all_input_nodes)
        return reads_old and node.target not in AGAIN

    def _order_mutations(self) -> None:
        """An op that overwrites an input comes after every op that reads the old contents."""
        unit_of = {node: unit.id for unit in self.units for node in unit.nodes}
        for unit in self.units:
            written = {source for node in unit.nodes for source in mutated_arguments(node)}
            readers = {unit_of[user] for source in written for user in source.users if user in unit_of}
            unit.after += sorted(other for other in readers if other < unit.id)

    def add_update(self, workspace: int) -> None:
        """The optimizer's step after the backward pass: it reads the gradients and needs memory of its own."""
        reads = sorted({self.value_of[n] for n in self.backward_outputs
                        if isinstance(n, fx.Node) and n in self.value_of})
        self.units.append(Unit(len(self.units), UPDATE, [], reads, [], backward=True, once=True, workspace=workspace))

    # ---- describing ----

    def set_costs(self, cost: Callable[[Unit], UnitCost]) -> None:
        for unit in self.units:
            if unit.nodes:
                price = cost(unit)
                unit.seconds, unit.workspace, unit.variants = price.seconds, price.workspace, list(price.variants)

    def describe(self, name: str, ordered: Sequence[int] = ()) -> Graph:
        """The neap graph. The units of `ordered` run in this order for the first time: each reads a
        value of no bytes that the one before it gives."""
        values = [{"name": self._name(v), "bytes": v.bytes, "kind": v.kind,
                   **({"view_of": v.view_of} if v.view_of is not None else {})} for v in self.values]
        ops = [self._op(unit) for unit in self.units]
        links = [(before, unit.id) for unit in self.units for before in unit.after]
        for before, after in links + list(zip(ordered, ordered[1:])):
            values.append({"name": f"order_{before}_{after}", "bytes": 0, "kind": "activation"})
            ops[before]["outputs"].append(len(values) - 1)
            ops[after]["inputs"].append(len(values) - 1)
        outputs = self.output_values()
        if self.later_bytes:
            values.append({"name": "gradients of later graphs", "bytes": self.later_bytes, "kind": "gradient"})
            ops[self.boundary]["outputs"].append(len(values) - 1)
            outputs.append(len(values) - 1)
        return Graph.from_dict({"neap": "graph", "version": 1, "name": name, "fixed_bytes": self.fixed_bytes,
                                "values": values, "ops": ops, "outputs": outputs})

    def _name(self, value: Value) -> str:
        return value.node.name if value.node is not None else f"unused_{value.id}"

    def _op(self, unit: Unit) -> dict:
        op = {"name": unit.name, "type": op_type(unit), "pass": "backward" if unit.backward else "forward",
              "inputs": list(unit.inputs), "outputs": list(unit.outputs), "time": unit.seconds,
              "workspace": unit.workspace}
        if unit.random:
            op["random"] = True
        if unit.variants:
            op["variants"] = [{"time": unit.seconds, "workspace": unit.workspace}]
            op["variants"] += [{"time": seconds, "workspace": size} for _, seconds, size in unit.variants]
        return op

    def read_again(self, unit: Unit) -> list[int]:
        """The values that a recomputation of the unit reads: a batch norm does without running statistics."""
        if unit.renames:
            return []
        if unit.nodes and unit.nodes[0].target in AGAIN:
            norm = unit.nodes[0]
            read = [norm.args[position] for position in AGAIN[norm.target].arguments]
            return [value for value in unit.inputs if self.values[value].node in read]
        return unit.inputs

    def output_values(self) -> list[int]:
        """Values that are in memory at the end of the step: what the forward pass returned, and the gradients."""
        nodes = [n for n in self.forward_outputs + self.backward_outputs if isinstance(n, fx.Node)]
        return sorted({self.value_of[n] for n in nodes if n in self.value_of
                       and self.values[self.value_of[n]].kind not in ("parameter", "input")})

    def owner(self, value: int) -> Value:
        """The value whose storage this one lies in; itself if it is not a view."""
        found = self.values[value]
        while found.view_of is not None:
            found = self.values[found.view_of]
        return found

    def pins(self) -> list[tuple[str, str]]:
        """What the planner may not do: run some ops twice, or give up what the caller holds."""
        pins = [("no-recompute", unit.name) for unit in self.units if unit.once]
        for node in self.forward_outputs:
            if isinstance(node, fx.Node) and node in self.value_of and node.op == "call_function":
                pins += [("no-recompute", node.name), ("no-offload", node.name)]
        return pins


# ---- facts about fx nodes ----


def storage_bytes(tensor: torch.Tensor) -> int:
    try:
        return int(tensor.untyped_storage().nbytes())
    except (NotImplementedError, RuntimeError):
        return int(tensor.numel() * tensor.element_size())


def is_random(node: fx.Node) -> bool:
    """Whether the op draws random numbers. Attention without dropout draws none, whatever its tag says."""
    if not isinstance(node.target, torch._ops.OpOverload) or torch.Tag.nondeterministic_seeded not in node.target.tags:
        return False
    for position, argument in enumerate(node.target._schema.arguments):
        if argument.name == "dropout_p":
            default = argument.default_value if argument.has_default_value() else None
            given = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name, default)
            return given != 0
    return True


def takes_statistics(node: fx.Node) -> bool:
    """Whether the node takes the next running statistics out of a training batch norm's results."""
    return (node.target is operator.getitem and node.args[0].target in AGAIN
            and node.args[1] in AGAIN[node.args[0].target].statistics)


def is_collective(node: fx.Node) -> bool:
    return isinstance(node.target, torch._ops.OpOverload) and "c10d" in node.target.namespace


def mutated_arguments(node: fx.Node) -> list[fx.Node]:
    """The nodes whose tensors the op overwrites."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return []
    written = []
    for position, name in _written(node.target):
        value = node.args[position] if position < len(node.args) else node.kwargs.get(name)
        written += [value] if isinstance(value, fx.Node) else [v for v in value or () if isinstance(v, fx.Node)]
    return written


@functools.cache
def _written(target: torch._ops.OpOverload) -> tuple[tuple[int, str], ...]:
    """Position and name of the arguments that an op overwrites."""
    return tuple((position, argument.name) for position, argument in enumerate(target._schema.arguments)
                 if argument.alias_info is not None and argument.alias_info.is_write)


def is_impure(node: fx.Node) -> bool:
    """Whether a second run would do more than give the same values again."""
    if is_random(node):
        return False
    if is_collective(node) or mutated_arguments(node):
        return True
    if not isinstance(node.target, torch._ops.OpOverload):
        return node.target is not operator.getitem and not callable(getattr(operator, getattr(
            node.target, "__name__", ""), None)) and not isinstance(node.target, torch._ops.HigherOrderOperator)
    return node.is_impure()


def aliased_input(node: fx.Node, index: int = 0) -> fx.Node | None:
    """The argument whose storage output `index` of the op shares, if any."""
    if node.op != "call_function" or not isinstance(node.target, torch._ops.OpOverload):
        return None
    if node.target in _HIDDEN_VIEWS:
        return node.args[0]
    schema = node.target._schema
    result = schema.returns[0 if len(schema.returns) == 1 else index] if schema.returns else None
    if result is None or result.alias_info is None:
        return None
    for position, argument in enumerate(schema.arguments):
        info = argument.alias_info
        # The parts of a list, as split gives them, have no names of their own: their source may become any of them.
        if info is not None and (info.before_set & result.alias_info.before_set or "*" in info.after_set):
            value = node.args[position] if position < len(node.args) else node.kwargs.get(argument.name)
            return value if isinstance(value, fx.Node) else None
    return None


def op_type(unit: Unit) -> str:
    kinds = [str(n.target).removeprefix("aten.").removesuffix(".default") for n in unit.nodes
             if n.target is not operator.getitem]
    return "+".join(kinds[:3]) + ("+..." if len(kinds) > 3 else "") if kinds else unit.name


def source_line(node: fx.Node | None) -> str:
    """Where in the user's code an op comes from: `file:line`, or an empty string."""
    trace = (node.meta.get("stack_trace") or "") if node is not None else ""
    for line in reversed(trace.splitlines()):
        if line.strip().startswith("File "):
            parts = line.strip().split(", ")
            return f"{parts[0][6:-1]}:{parts[1].removeprefix('line ')}"
    return ""


def is_tangent(node: fx.Node) -> bool:
    """Whether a placeholder is the gradient of an output of the forward pass."""
    return "tangents" in str(node.target)


def _attribute(module: fx.GraphModule, node: fx.Node) -> object:
    found: object = module
    for part in str(node.target).split("."):
        found = getattr(found, part)
    return found


def _items_read(node: fx.Node) -> set[int]:
    """The results of an op that a getitem node takes, and those that are never there again."""
    items = {user.args[1] for user in node.users if user.target is operator.getitem}
    return items | set(AGAIN[node.target].statistics) if node.target in AGAIN else items


def _single_nodes(module: fx.GraphModule) -> list[list[fx.Node]]:
    """A group for every op, with the getitem nodes that take its results apart."""
    groups: list[list[fx.Node]] = []
    owner: dict[object, list[fx.Node]] = {}
    for node in module.graph.nodes:
        if node.op != "call_function":
            continue
        if takes_statistics(node):
            key = (node.args[0], "statistics")
            if key not in owner:
                owner[key] = []
                groups.append(owner[key])
            owner[key].append(node)
        elif node.target is operator.getitem and node.args[0] in owner:
            owner[node] = owner[node.args[0]]
            owner[node].append(node)
        else:
            owner[node] = [node]
            groups.append(owner[node])
    return groups


def _split_passes(groups: list[Sequence[fx.Node]], tangents: list[fx.Node]) -> tuple[list[Sequence[fx.Node]], int]:
    """The groups in order, and the position of the first that needs a tangent."""
    reached = set(tangents)
    for index, group in enumerate(groups):
        for node in group:
            if any(source in reached for source in node.all_input_nodes):
                return groups, index
    return groups, len(groups)


def mutated_inputs(output: fx.Node, placeholders: list[fx.Node]) -> set[fx.Node]:
    """The inputs that the step overwrites after the forward pass, such as batch-norm statistics."""
    found = set(overwritten_inputs(output, placeholders))
    for node in output.graph.nodes:
        found.update(n for n in mutated_arguments(node) if n.op == "placeholder")
    return found


def overwritten_inputs(output: fx.Node, placeholders: list[fx.Node]) -> dict[fx.Node, object]:
    """The inputs that the caller overwrites after the forward pass with one of its results, and that result."""
    by_description = {p.meta["desc"]: p for p in placeholders if "desc" in p.meta}
    found: dict[fx.Node, object] = {}
    for description, result in zip(output.meta.get("desc", ()), output.args[0]):
        mutated = getattr(description, "mutated_input", None)
        if mutated is not None and mutated in by_description:
            found[by_description[mutated]] = result
    return found


def _refuse_unsupported(module: fx.GraphModule) -> None:
    for node in module.graph.nodes:
        value = node.meta.get("val")
        if node.op == "call_function" and isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise UnsupportedError(
                f"op {node.target} ({source_line(node) or node.name}) gives a number that depends on data or on a "
                f"symbolic size; move it out of the compiled model, or mark its input static")
        if node.op in ("call_module", "call_method"):
            raise UnsupportedError(f"node {node.name}: calls of kind {node.op} are not supported in a joint graph")
