"""Units of the joint graph: what Inductor runs as one or two kernels, and the planner as one op.

A value that Inductor fuses into its readers never exists in memory. So a plan of single ops would count bytes
that are never allocated and price kernels that are never launched. `fusion_groups` follows the rules by which
Inductor decides what it keeps in memory (`StorageBox.should_realize_on_reuse`, `GraphLowering.run_node`):

- Views cost nothing and belong to their reader. A view with several readers is copied for each.
- A pointwise value is computed inside of its readers' loops, again for each, unless one of them is a library
  kernel, or it has several and is costly: it reads more than four tensors or takes more than thirty operations.
  An op that picks elements (the loss of each token from its log probabilities) computes those that it picks.
- A reduction over rows shares its kernel with what follows in the same loop (norms, softmax); reductions of the
  same tensor share one.

A value that is in memory anyway ends its unit even where Inductor fuses on, for instance a residual sum and the
norm after it: the planner then can keep the sum and compute the norm again from it alone.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from torch import fx

from .op_kinds import Kind, is_view, kind_of, picks_elements

READS_TO_KEEP = 4  # torch._inductor.config.realize_reads_threshold
OPERATIONS_TO_KEEP = 30  # torch._inductor.config.realize_opcount_threshold
LONGEST_ROW = 16384  # elements of a row that one block reduces; longer ones are split over blocks
_MORE = 1.5  # a value is kept if what it is computed from is this much larger
_NEIGHBOURS = 8  # how far back a reduction looks for another of the same tensor

_LOOPS = (Kind.POINTWISE, Kind.REDUCTION)


@dataclass(eq=False)
class _Cluster:
    """A unit while it is built. Clusters stand in a list that is a topological order at all times."""

    position: int
    backward: bool
    kind: Kind
    domain: int  # elements of the loop
    rows: int = 0  # results of the reduction inside, 0 if there is none
    split: bool = False  # the reduction is split over blocks
    nodes: list[fx.Node] = field(default_factory=list)
    reads: set[fx.Node] = field(default_factory=set)
    private: bool = False  # reads or writes an overwritten input: never computed twice


def fusion_groups(module: fx.GraphModule) -> list[list[fx.Node]]:
    """Partitions the ops of a joint graph into units, in a topological order.

    The graph is changed, not the module's code: what Inductor computes again for each reader is copied for each
    reader. Forward ops come before backward ops (those that depend on a tangent), and no unit holds both. No unit
    returns a view of what another holds, except a unit of views alone, whose results are outputs of the graph.
    `node.meta["neap_unit"]` is the number of a node's unit, `neap_origin` its name, and `neap_kept` marks pointwise
    values that are kept in memory.
    """
    graph = module.graph
    kept = _copy_for_each_reader(graph, backward_nodes(graph))
    for node in kept:
        node.meta["neap_kept"] = True
    graph.lint()
    return _group(graph, backward_nodes(graph), kept)


def backward_nodes(graph: fx.Graph) -> set[fx.Node]:
    """The nodes of the backward pass: those that need a tangent, and those only such nodes read.

    A value that the backward pass computes again from saved ones does not depend on a tangent; its tag says
    where it belongs.
    """
    found: set[fx.Node] = set()
    for node in graph.nodes:
        if "tangents" in str(node.target) and node.op == "placeholder":
            found.add(node)
        elif node.op == "call_function" and (node.meta.get("neap_pass") == "backward"
                                             or any(source in found for source in node.all_input_nodes)):
            found.add(node)
    return found


# ---- copies ----


def _copy_for_each_reader(graph: fx.Graph, backward: set[fx.Node]) -> set[fx.Node]:
    """Gives every view and every pointwise value that is not kept in memory a single reader. Returns those kept."""
    kept = _kept_values(graph, backward)
    for node in reversed(list(graph.nodes)):
        if node.op != "call_function" or node in kept or not (is_view(node) or kind_of(node) is Kind.POINTWISE):
            continue
        if not node.users:
            graph.erase_node(node)
            continue
        readers = list(node.users)
        for reader in readers[1:] if len(readers) > 1 else ():
            with graph.inserting_before(reader):
                copy = graph.node_copy(node, lambda n: n)
            copy.meta = dict(node.meta)
            if reader in backward:
                backward.add(copy)
                copy.meta["neap_pass"] = "backward"
            reader.replace_input_with(node, copy)
        if readers[0].op != "output":
            readers[0].prepend(node)
        if readers[0] in backward:
            backward.add(node)
            node.meta["neap_pass"] = "backward"
    return kept


def _kept_values(graph: fx.Graph, backward: set[fx.Node]) -> set[fx.Node]:
    """The pointwise values that are written to memory."""
    kept: set[fx.Node] = set()
    reads: dict[fx.Node, frozenset[fx.Node]] = {}
    operations: dict[fx.Node, int] = {}
    nearby = _nearby_reductions(graph)
    for node in graph.nodes:
        if node.op != "call_function" or not (is_view(node) or kind_of(node) is Kind.POINTWISE):
            continue
        inlined = [n for n in node.all_input_nodes if n in reads and n not in kept]
        stored = [n for n in node.all_input_nodes if n not in inlined]
        reads[node] = frozenset(stored).union(*(reads[n] for n in inlined))
        operations[node] = sum(operations[n] for n in inlined) + (0 if is_view(node) else 1)
        if is_view(node):
            continue
        readers = list(_readers(node))
        if not reads[node] and all(r.op != "output" for r in readers):
            continue  # a constant
        crosses = any((r in backward) != (node in backward) for r in readers if r.op != "output")
        alone = any(r.op == "output" or not _computes_inputs(r) for r in readers)
        costly = len(reads[node]) > READS_TO_KEEP or operations[node] > OPERATIONS_TO_KEEP
        own = _of_its_pass(node, reads[node], backward)
        if alone or crosses or (len(readers) > 1 and costly) or _holds_more(node, own, readers, nearby):
            kept.add(node)
    return kept


def _computes_inputs(reader: fx.Node) -> bool:
    """Whether Inductor computes a pointwise value inside of the op that reads it."""
    return kind_of(reader) in (*_LOOPS, Kind.WRITE) or picks_elements(reader)


def _of_its_pass(node: fx.Node, reads: frozenset[fx.Node], backward: set[fx.Node]) -> list[fx.Node]:
    """What would stay in memory for a value's readers. Forward values that the backward pass reads stay for others, too."""
    return [source for source in reads if (source in backward) == (node in backward)]


def _holds_more(node: fx.Node, reads: Sequence[fx.Node], readers: list[fx.Node],
                nearby: dict[fx.Node, frozenset[fx.Node]]) -> bool:
    """Whether computing a value again in each reader keeps more in memory than the value itself.

    A residual sum is the example: its terms can go once it is there. Readers that share the kernel of a norm, or
    whose results meet in one, count as one. Inductor is told to keep such a value (`segments.build_graph`).
    """
    inner = {r for r in readers if r.op != "output" and kind_of(r) is Kind.REDUCTION and not _is_outer(r)}
    kernels = {frozenset(nearby.get(r, frozenset()) & inner) or _sink(r) for r in readers if r not in inner}
    kernels |= {frozenset([r]) for r in inner}
    return len(kernels) > 1 and sum(map(_bytes, reads)) > _MORE * _bytes(node)


def _sink(node: fx.Node) -> fx.Node:
    """The value that a pointwise value flows into, as far as each step has a single reader."""
    while node.op == "call_function" and kind_of(node) in (Kind.POINTWISE, Kind.VIEW) and len(node.users) == 1:
        reader = next(iter(node.users))
        if reader.op != "call_function" or kind_of(reader) not in (Kind.POINTWISE, Kind.VIEW):
            break
        node = reader
    return node


def _nearby_reductions(graph: fx.Graph) -> dict[fx.Node, frozenset[fx.Node]]:
    """For each node the reductions that it reads without a library kernel between."""
    nearby: dict[fx.Node, frozenset[fx.Node]] = {}
    for node in graph.nodes:
        if node.op != "call_function" or kind_of(node) not in (*_LOOPS, Kind.VIEW):
            continue
        found = frozenset().union(*(nearby.get(s, frozenset()) for s in node.all_input_nodes))
        if kind_of(node) is Kind.REDUCTION and node.target is not operator.getitem:
            found = frozenset([node])
        nearby[node] = found
    return nearby


def _readers(node: fx.Node) -> Iterable[fx.Node]:
    """The ops that read a value, through views."""
    for user in node.users:
        if user.op == "call_function" and is_view(user):
            yield from _readers(user)
        else:
            yield user


# ---- groups ----


def _group(graph: fx.Graph, backward: set[fx.Node], kept: set[fx.Node]) -> list[list[fx.Node]]:
    roots, tails = _roots(graph, kept)
    owner: dict[fx.Node, fx.Node] = {}
    for node in reversed(list(graph.nodes)):
        if node.op == "call_function":
            owner[node] = node if node in roots else tails[node] if node in tails else _reader_root(node, owner)
    written = {source for node in graph.nodes if node.op == "call_function" and kind_of(node) is Kind.WRITE
               for source in node.all_input_nodes if source.op == "placeholder"}
    members: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        if node.op == "call_function":
            members.setdefault(owner[node], []).append(node)
    position = {node: i for i, node in enumerate(graph.nodes)}
    order = sorted(members, key=lambda root: (root in backward, position[root]))
    builder = _Builder(backward, written)
    for root in _start_with_tangent(order, members, backward):
        builder.add(root, members[root])
    groups = [_in_graph_order(c.nodes, builder.index) for c in builder.clusters]
    for number, nodes in enumerate(groups):
        for node in nodes:
            node.meta["neap_unit"], node.meta["neap_origin"] = number, node.name
    return groups


def _roots(graph: fx.Graph, kept: set[fx.Node]) -> tuple[set[fx.Node], dict[fx.Node, fx.Node]]:
    """The nodes whose results are in memory, and the nodes that go with one of them: items and returned views."""
    roots: set[fx.Node] = set()
    tails: dict[fx.Node, fx.Node] = {}
    for node in graph.nodes:
        if node.op != "call_function":
            continue
        if is_view(node):
            if any(user.op == "output" for user in node.users):
                _place_returned_view(node, roots, tails)
        elif node.target is operator.getitem:
            tails[node] = node.args[0]
        elif node in kept or kind_of(node) is not Kind.POINTWISE or not node.users:
            roots.add(node)
    return roots, tails


def _place_returned_view(view: fx.Node, roots: set[fx.Node], tails: dict[fx.Node, fx.Node]) -> None:
    """A returned view belongs to the op whose result it shows if nothing else reads that."""
    chain, source = [view], view.args[0]
    while source.op == "call_function" and is_view(source) and len(source.users) == 1:
        chain.append(source)
        source = source.args[0]
    base = tails.get(source, source)
    if base in roots and len(source.users) == 1:
        tails.update(dict.fromkeys(chain, base))
    else:
        roots.add(view)


def _reader_root(node: fx.Node, owner: dict[fx.Node, fx.Node]) -> fx.Node:
    readers = [user for user in node.users if user in owner]
    return owner[readers[0]] if readers else node


def _start_with_tangent(order: list[fx.Node], members: dict[fx.Node, list[fx.Node]],
                        backward: set[fx.Node]) -> list[fx.Node]:
    """Moves backward units that need no tangent after the first that needs one, where nothing stands against it."""
    forward = [root for root in order if root not in backward]
    rest = [root for root in order if root in backward]
    first = next((i for i, root in enumerate(rest)
                  if any("tangents" in str(s.target) for n in members[root] for s in n.all_input_nodes)), 0)
    needed = {s for n in members[rest[first]] for s in n.all_input_nodes} if rest else set()
    moved, ahead = [], []
    for root in reversed(rest[:first]):
        if needed.isdisjoint(members[root]):
            moved.insert(0, root)
        else:
            ahead.insert(0, root)
            needed |= {s for n in members[root] for s in n.all_input_nodes}
    return forward + ahead + rest[first:first + 1] + moved + rest[first + 1:]


class _Builder:
    """Adds units one after the other and merges those that share a kernel.

    A unit may join a cluster at or after the last of the clusters that it reads: all others it reads stand
    before that one, so the list stays a topological order and no cluster depends on itself.
    """

    def __init__(self, backward: set[fx.Node], written: set[fx.Node]) -> None:
        self.backward = backward
        self.written = written
        self.clusters: list[_Cluster] = []
        self.cluster_of: dict[fx.Node, _Cluster] = {}
        self.index: dict[fx.Node, int] = {}

    def add(self, root: fx.Node, nodes: list[fx.Node]) -> None:
        unit = self._describe(root, nodes)
        home = self._home(unit, root)
        if home is None:
            self.clusters.append(unit)
            home = unit
        else:
            home.nodes += nodes
            home.reads |= unit.reads
            home.rows = max(home.rows, unit.rows)
            home.split |= unit.split
            home.kind = Kind.REDUCTION
        for node in nodes:
            self.cluster_of[node] = home
            self.index[node] = len(self.index)

    def _describe(self, root: fx.Node, nodes: list[fx.Node]) -> _Cluster:
        inside = set(nodes)
        reads = {_base(s) for n in nodes for s in n.all_input_nodes if s not in inside}
        kind = kind_of(root)
        unit = _Cluster(len(self.clusters), root in self.backward, kind, _elements(root), nodes=list(nodes), reads=reads,
                        private=not reads.isdisjoint(self.written))
        if kind is Kind.REDUCTION:
            unit.rows = unit.domain
            unit.domain = max((_elements(s) for s in root.all_input_nodes), default=unit.rows)
            unit.split = unit.rows == 0 or unit.domain // max(unit.rows, 1) > LONGEST_ROW or _is_outer(root)
        return unit

    def _home(self, unit: _Cluster, root: fx.Node) -> _Cluster | None:
        if unit.kind not in _LOOPS or unit.private:
            return None
        sources = [self.cluster_of[r] for r in unit.reads if r in self.cluster_of]
        last = max(sources, key=lambda c: c.position, default=None)
        if last is not None and self._continues(last, unit):
            return last
        if unit.kind is Kind.REDUCTION:
            earliest = last.position + 1 if last is not None else 0
            for other in reversed(self.clusters[max(earliest, len(self.clusters) - _NEIGHBOURS):]):
                if self._shares_loop(other, unit):
                    return other
        return None

    def _continues(self, last: _Cluster, unit: _Cluster) -> bool:
        """Whether the unit runs in the loop of the reduction that it reads."""
        if last.kind is not Kind.REDUCTION or last.private or last.backward != unit.backward or not last.rows:
            return False
        if unit.kind is Kind.POINTWISE and unit.domain <= last.rows:
            return True
        return not last.split and not unit.split and unit.domain == last.domain

    def _shares_loop(self, other: _Cluster, unit: _Cluster) -> bool:
        return (other.kind is Kind.REDUCTION and not other.private and other.backward == unit.backward
                and other.domain == unit.domain and other.rows == unit.rows and not other.reads.isdisjoint(unit.reads))


def _base(node: fx.Node) -> fx.Node:
    while node.op == "call_function" and (is_view(node) or node.target is operator.getitem):
        node = node.args[0]
    return node


def _bytes(node: fx.Node) -> int:
    value = node.meta.get("val")
    return int(value.numel()) * value.element_size() if isinstance(value, torch.Tensor) else 0


def _elements(node: fx.Node) -> int:
    value = node.meta.get("val")
    tensors = [v for v in (value if isinstance(value, (tuple, list)) else [value]) if isinstance(v, torch.Tensor)]
    return max((int(t.numel()) for t in tensors), default=0)


def _is_outer(root: fx.Node) -> bool:
    """Whether a reduction runs over other dimensions than the last, contiguous ones."""
    source = root.args[0] if root.args else None
    value = source.meta.get("val") if isinstance(source, fx.Node) else None
    if not isinstance(value, torch.Tensor):
        return True
    dims = root.args[1] if len(root.args) > 1 else root.kwargs.get("dim")
    if dims is None:
        return value.numel() > LONGEST_ROW
    dims = [dims] if isinstance(dims, int) else list(dims)
    reduced = {d % max(value.dim(), 1) for d in dims}
    return bool(value.dim()) and min(range(value.dim()), key=lambda d: value.stride(d) if value.size(d) > 1 else 1 << 60) not in reduced


def _in_graph_order(nodes: list[fx.Node], index: dict[fx.Node, int]) -> list[fx.Node]:
    """The nodes of a merged unit in an order in which each stands after what it reads."""
    inside = set(nodes)
    done: set[fx.Node] = set()
    result: list[fx.Node] = []
    for start in sorted(nodes, key=index.__getitem__):
        stack = [start]
        while stack:
            node = stack[-1]
            waiting = [s for s in node.all_input_nodes if s in inside and s not in done]
            if node in done or not waiting:
                stack.pop()
                if node not in done:
                    done.add(node)
                    result.append(node)
            else:
                stack.extend(waiting)
    return result
