"""Runs a program in segments, in the order of the plan: generated Python that calls compiled segments."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import torch
from torch import fx

from .compile_segment import CompiledSegment, Layout, SegmentCode, SegmentCompiler, layout_of
from .deferred import deferred_kernels
from .segments import SEGMENT_NODES, Segment, advance_writes, base_of, build_graph, cut, has_effect, segment_key


class OrderedProgram:
    """A pass of a plan, compiled in segments. Call it with a list of tensors; it empties the list.

    source      the generated Python
    steps       the segments and the nodes between them
    compiled    how many segments Inductor has compiled; equal ones share their code
    seconds     spent on compiling
    codes       for each step its compiled segment; None for nodes, and for segments that do not run
    last        for each value the last step that reads it; len(steps) for what is returned
    """

    _boxed_call = True  # AOTAutograd passes its arguments as a list that may be emptied

    def __init__(self, module: fx.GraphModule, steps: list[Segment | fx.Node], example_inputs: Sequence[object],
                 cache: dict[str, CompiledSegment], begin: Callable[[int], None] | None = None) -> None:
        started = time.perf_counter()
        inputs = [layout_of(v) if isinstance(v, torch.Tensor) else v for v in example_inputs]
        writer = _Writer(module, steps, inputs, cache, begin)
        self.module = module
        self.steps = steps
        self.source, self._run = writer.write()
        self.codes, self.last = [writer.codes.get(i) for i in range(len(steps))], writer.last
        self.compiled = writer.compiler.count
        self.seconds = time.perf_counter() - started

    def __call__(self, args: list) -> tuple:
        return self._run(args)

    @property
    def segments(self) -> list[Segment]:
        return [step for step in self.steps if isinstance(step, Segment)]


def compile_in_order(module: fx.GraphModule, example_inputs: Sequence[object], *, segment_nodes: int = SEGMENT_NODES,
                     cache: dict[str, CompiledSegment] | None = None,
                     begin: Callable[[int], None] | None = None) -> OrderedProgram:
    """Compiles a pass so that it runs in the order of its nodes.

    `module` stands in plan order, recomputed nodes occur again. Nodes that are no ops (Python functions) run as
    they are, between segments, which have about `segment_nodes` nodes. `cache` keeps compiled segments for later calls;
    by default all calls share one. `begin` is called before each step with its number.
    """
    advance_writes(module.graph)
    steps = cut(module, segment_nodes)
    return OrderedProgram(module, steps, example_inputs, _compiled_before() if cache is None else cache, begin)


_caches: dict[str, dict[str, CompiledSegment]] = {}  # Inductor's settings -> segments


def _compiled_before() -> dict[str, CompiledSegment]:
    from torch._inductor import config

    settings = (config.get_hash(), torch.get_float32_matmul_precision(), torch.are_deterministic_algorithms_enabled())
    return _caches.setdefault(repr(settings), {})


def _last_readers(module: fx.GraphModule, steps: Sequence[Segment | fx.Node]) -> dict[fx.Node, int]:
    """The last step that reads each value; len(steps) for what is returned."""
    last: dict[fx.Node, int] = {}
    for index, step in enumerate(steps):
        reads = step.inputs if isinstance(step, Segment) else [base_of(n) for n in step.all_input_nodes]
        last.update(dict.fromkeys(reads, index))
    for node in next(iter(module.graph.find_nodes(op="output"))).all_input_nodes:
        last[node] = last[base_of(node)] = len(steps)
    return last


class _Writer:
    """Compiles the segments and writes the Python that calls them."""

    def __init__(self, module: fx.GraphModule, steps: Sequence[Segment | fx.Node], inputs: Sequence[Layout | object],
                 cache: dict[str, CompiledSegment], begin: Callable[[int], None] | None) -> None:
        self.module = module
        self.steps = steps
        self.inputs = inputs
        self.cache = cache
        self.codes: dict[int, SegmentCode] = {}
        self.compiler = SegmentCompiler()
        self.last = _last_readers(module, steps)
        self.variable: dict[fx.Node, str] = {}
        self.layout: dict[fx.Node, Layout | object] = {}
        self.lines: list[str] = []
        self.bound: dict[str, object] = {"begin": begin} if begin else {}

    def write(self) -> tuple[str, Callable[[list], tuple]]:
        """The source of the program, and the program."""
        placeholders = list(self.module.graph.find_nodes(op="placeholder"))
        for node, value in zip(placeholders, self.inputs):
            self._name(node, value)
        for node in self.module.graph.nodes:
            if node.op == "get_attr":
                self._bind_attribute(node)
        if placeholders:
            self.lines.append("".join(self.variable[n] + ", " for n in placeholders) + "= args")
        self.lines.append("args.clear()")
        self._drop([n for n in placeholders if n not in self.last])
        with deferred_kernels():
            for index, step in enumerate(self.steps):
                if isinstance(step, Segment):
                    self._segment(index, step)
                else:
                    self._call(index, step)
        self._return()
        source = "def run(args):\n" + "".join(f"    {line}\n" for line in self.lines)
        exec(compile(source, "<neap program>", "exec"), self.bound)
        return source, self.bound["run"]

    # ---- steps ----

    def _segment(self, index: int, segment: Segment) -> None:
        if not segment.outputs and not any(has_effect(node) for node in segment.nodes):
            return
        dying = {n for n in segment.inputs if self.last.get(n) == index and not _is_kept_outside(n)}
        compiled = self._compiled(segment, dying)
        for node, layout in zip(segment.outputs, compiled.outputs):
            self._name(node, layout)
            if base_of(node) is not node:
                self.variable.setdefault(base_of(node), self.variable[node])
        call = self._bind("s", compiled.call)
        self.codes[index] = SegmentCode(compiled.call, segment.nodes, segment.inputs, [self.layout[n] for n in segment.inputs],
                                        [n in dying for n in segment.inputs], segment.outputs)
        self._begin(index)
        self.lines.append(f"x = [{', '.join(self.variable[n] for n in segment.inputs)}]")
        self._drop([n for n in segment.inputs if self.last.get(n) == index and n.op != "get_attr"])
        results = "".join(self.variable[n] + ", " for n in segment.outputs)
        self.lines.append(f"{results}= {call}(x)" if results else f"{call}(x)")

    def _compiled(self, segment: Segment, dying: set[fx.Node]) -> CompiledSegment:
        key = segment_key(segment, lambda n: repr(self.layout[n]), dying)
        if key not in self.cache:
            started = time.perf_counter()
            module = build_graph(segment, dying)
            inputs = [self.layout[n] for n in segment.inputs]
            outputs = self.compiler.propagate(module, inputs)
            call = self.compiler.compile(module, inputs)
            self.cache[key] = CompiledSegment(call, outputs, time.perf_counter() - started)
        return self.cache[key]

    def _call(self, index: int, node: fx.Node) -> None:
        """A node that runs as Python."""
        self._begin(index)
        for source in node.all_input_nodes:
            self._show(source)
        function = self._bind("f", node.target)
        words = [self._word(a) for a in node.args] + [f"{k}={self._word(v)}" for k, v in node.kwargs.items()]
        self._name(node, layout_of(node.meta.get("val")))
        self.lines.append(f"{self.variable[node]} = {function}({', '.join(words)})")
        sources = {base_of(n) for n in node.all_input_nodes} | {n for n in node.all_input_nodes if base_of(n) is not n}
        self._drop([n for n in sources if self.last.get(base_of(n)) == index and n.op != "get_attr"])
        if node not in self.last:
            self._drop([node])

    def _show(self, node: fx.Node) -> None:
        """Makes a view outside of the segments."""
        if node in self.variable or base_of(node) is node:
            return
        if node.target is torch.ops.aten.copy_.default:
            self.variable[node] = self.variable[base_of(node)]
            return
        self._show(node.args[0])
        function = self._bind("f", node.target)
        words = [self._word(a) for a in node.args] + [f"{k}={self._word(v)}" for k, v in node.kwargs.items()]
        self._name(node, layout_of(node.meta.get("val")))
        self.lines.append(f"{self.variable[node]} = {function}({', '.join(words)})")

    def _return(self) -> None:
        output = next(iter(self.module.graph.find_nodes(op="output")))
        results = output.args[0] if isinstance(output.args[0], (tuple, list)) else output.args
        for node in results:
            if isinstance(node, fx.Node):
                self._show(node)
        words = [self._word(r) for r in results]
        self.lines.append(f"return ({', '.join(words)}{',' if words else ''})")

    # ---- names ----

    def _name(self, node: fx.Node, layout: Layout | object) -> None:
        self.variable.setdefault(node, f"v{len(self.variable)}")
        self.layout[node] = layout

    def _begin(self, index: int) -> None:
        if "begin" in self.bound:
            self.lines.append(f"begin({index})")

    def _bind(self, prefix: str, value: object) -> str:
        name = f"{prefix}{len(self.bound)}"
        self.bound[name] = value
        return name

    def _bind_attribute(self, node: fx.Node) -> None:
        value: object = self.module
        for part in str(node.target).split("."):
            value = getattr(value, part)
        self.variable[node] = self._bind("a", value)
        self.layout[node] = layout_of(value) or value

    def _word(self, value: object) -> str:
        """An argument as Python text."""
        if isinstance(value, fx.Node):
            return self.variable[value]
        if isinstance(value, (tuple, list)):
            words = [self._word(v) for v in value]
            return f"[{', '.join(words)}]" if isinstance(value, list) else f"({''.join(w + ', ' for w in words)})"
        if value is None or isinstance(value, (bool, int, str)):
            return repr(value)
        return self._bind("c", value)

    def _drop(self, nodes: Sequence[fx.Node]) -> None:
        names = dict.fromkeys(self.variable[n] for n in nodes if n in self.variable)
        if names:
            self.lines.append(" = ".join(names) + " = None")


def _is_kept_outside(node: fx.Node) -> bool:
    """Whether the caller holds the value in any case: a parameter or an input of the model."""
    return node.op == "get_attr" or (node.op == "placeholder" and "primals" in node.name)
