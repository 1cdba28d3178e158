"""Plans with Inductor's kernels: units as Inductor fuses, segments in plan order, results as without a plan."""

from __future__ import annotations

import copy
from collections import Counter
from types import SimpleNamespace

import pytest

torch = pytest.importorskip("torch")

from torch import fx, nn  # noqa: E402
from torch._functorch.aot_autograd import aot_module_simplified  # noqa: E402

from neap.torch import inductor  # noqa: E402
from neap.torch.compile_segment import SegmentCode  # noqa: E402
from neap.torch.fusion import backward_nodes  # noqa: E402
from neap.torch.joint import JointGraph, UnitCost  # noqa: E402
from neap.torch.op_kinds import Kind, kind_of  # noqa: E402
from neap.torch.plans import Request, make_plan  # noqa: E402
from neap.torch.program import build  # noqa: E402
from neap.torch.segment_trial import inputs_of, tune  # noqa: E402
from neap.torch.segments import Segment, advance_writes, base_of, cut, has_effect, value_bytes  # noqa: E402

aten = torch.ops.aten


@pytest.fixture(autouse=True)
def quick_compiler():
    """Kernels without optimization: they compile faster than they run slower."""
    from torch._inductor import config

    torch._dynamo.reset()
    with config.patch({"aot_inductor.debug_compile": True, "cpp.simdlen": 1}):
        yield


class Block(nn.Module):
    """A pre-norm residual block with dropout."""

    def __init__(self, width: int = 16, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.dropout(self.down(nn.functional.gelu(self.up(self.norm(x)))))


class Convolutions(nn.Module):
    """Two convolutions with batch norm and a residual sum."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 4, 3, padding=1, bias=False), nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norms = nn.ModuleList([nn.BatchNorm2d(4), nn.BatchNorm2d(4)])

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(self.norms[0](self.first(x)))
        return torch.relu(self.norms[1](self.second(x)) + x).mean((2, 3))


class Captured:
    """A model compiled through the pieces of the Inductor mode; keeps what they made."""

    def __init__(self, fraction: float | None, segment_nodes: int = 20, compile_passes: bool = True) -> None:
        self.fraction = fraction  # of the bytes above inputs and outputs; None: store everything
        self.segment_nodes = segment_nodes
        self.compile_passes = compile_passes
        self.cache: dict = {}
        self.programs: list = []
        self.modules: list[fx.GraphModule] = []

    def __call__(self, module: fx.GraphModule, inputs: list) -> object:
        with torch._functorch.config.patch(donated_buffer=False):
            return aot_module_simplified(
                module, inputs, fw_compiler=self._compile, bw_compiler=self._compile, partition_fn=self._partition,
                decompositions=inductor.decompositions(), keep_inference_input_mutations=True)

    def _partition(self, module: fx.GraphModule, inputs: object, *, num_fwd_outputs: int, **options: object) -> tuple:
        self.traced = module
        self.joint = inductor.prepare_joint(module, inputs, num_fwd_outputs=num_fwd_outputs,
                                            static_lifetime_input_indices=options.get("static_lifetime_input_indices"))
        self.groups = inductor.fusion_groups(self.joint)
        self.described = JointGraph(self.joint, num_fwd_outputs, lambda size: size, self.groups)
        self.described.set_costs(lambda unit: UnitCost(1e-6 * (1 + inductor.unit_traffic(unit.nodes)), 0))
        graph = self.described.describe("test")
        values = self.described.values
        least = sum(v.bytes for v in values if v.kind in ("parameter", "input"))
        least += sum(values[v].bytes for v in self.described.output_values())
        budget = None if self.fraction is None else int(least + self.fraction * (graph.natural_peak - least))
        self.plan = make_plan(self.described, "test", Request(budget, time_limit=2, cache=False))
        passes = build(self.described, self.plan)
        return passes.forward, passes.backward

    def _compile(self, module: fx.GraphModule, inputs: list) -> object:
        if not self.compile_passes:
            from functorch.compile import make_boxed_func

            self.programs.append(module)
            return make_boxed_func(module.forward)
        self.modules.append(module)
        self.programs.append(inductor.compile_in_order(
            module, inputs, segment_nodes=self.segment_nodes, cache=self.cache))
        return self.programs[-1]


def train(model: nn.Module, backend: object, x: torch.Tensor, steps: int = 1) -> list[torch.Tensor]:
    """Losses and gradients of some steps, from one seed."""
    torch.manual_seed(3)
    compiled = torch.compile(model, backend=backend)
    results = []
    for _ in range(steps):
        output = compiled(x)
        loss = (output * torch.linspace(-1, 1, output.numel()).reshape(output.shape)).sum()
        loss.backward()
        results.append(loss.detach())
    return results + [p.grad for p in model.parameters()]


def capture(model: nn.Module, x: torch.Tensor, fraction: float | None = None) -> Captured:
    captured = Captured(fraction, compile_passes=False)
    train(model, captured, x)
    return captured


def blocks(count: int, dropout: float = 0.0) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(*[Block(dropout=dropout) for _ in range(count)])


def bytes_between_steps(program: inductor.OrderedProgram, module: fx.GraphModule) -> list[int]:
    """Bytes of computed values that exist after each step of a compiled pass."""
    last: dict[fx.Node, int] = {}
    for index, step in enumerate(program.steps):
        reads = step.inputs if isinstance(step, Segment) else [base_of(n) for n in step.all_input_nodes]
        last.update(dict.fromkeys(reads, index))
    for node in next(iter(module.graph.find_nodes(op="output"))).all_input_nodes:
        last[base_of(node)] = len(program.steps)
    alive: dict[fx.Node, int] = {}
    result = []
    for index, step in enumerate(program.steps):
        for node in step.outputs if isinstance(step, Segment) else [step]:
            alive[base_of(node)] = value_bytes(base_of(node))
        alive = {node: size for node, size in alive.items() if last.get(node, -1) > index}
        result.append(sum(alive.values()))
    return result


def recomputed(captured: Captured) -> set[object]:
    """The ops of the units that the plan computes more than once."""
    computed = Counter(unit for kind, unit, _ in captured.plan.steps if kind == "compute")
    return {node.target for unit, count in computed.items() if count > 1 for node in captured.described.units[unit].nodes}


def close(a: torch.Tensor, b: torch.Tensor) -> bool:
    return torch.allclose(a, b, rtol=1e-3, atol=1e-4 * float(b.abs().max() + 1e-3))


# ---- units ----


@pytest.mark.parametrize("model, shape", [(blocks(2, 0.1), (4, 16)), (Convolutions(), (2, 3, 8, 8))])
def test_units_partition_the_graph_in_order(model: nn.Module, shape: tuple) -> None:
    captured = capture(copy.deepcopy(model), torch.randn(shape))
    ops = [n for n in captured.joint.graph.nodes if n.op == "call_function"]
    grouped = [n for group in captured.groups for n in group]
    assert sorted(n.name for n in grouped) == sorted(n.name for n in ops)
    position = {n: i for i, group in enumerate(captured.groups) for n in group}
    backward = backward_nodes(captured.joint.graph)
    for number, group in enumerate(captured.groups):
        assert len({n in backward for n in group}) == 1
        seen: set[fx.Node] = set()
        for node in group:
            for source in node.all_input_nodes:
                assert source.op != "call_function" or position[source] < number or source in seen
            seen.add(node)


def test_a_norm_is_one_unit_and_a_residual_sum_ends_one() -> None:
    captured = capture(blocks(2), torch.randn(4, 16))
    forward = [g for g in captured.groups if not any(n in backward_nodes(captured.joint.graph) for n in g)]
    norms = [g for g in forward if any(n.target is aten.var_mean.correction for n in g)]
    assert len(norms) == 2
    for group in norms:
        assert any(n.target is aten.rsqrt.default for n in group)  # the reduction and what follows it
    products = [g for g in forward if inductor.library_kernel(g)]
    assert len(products) == 4
    for group in norms:  # the sum before a norm is in memory, and all that the norm reads of that size
        outside = {s for n in group for s in n.all_input_nodes if s not in group and s.meta["val"].numel() == 4 * 16}
        assert len(outside) == 1
        assert all(s.op == "placeholder" or s.meta["neap_kept"] for s in outside)


def test_what_inductor_fuses_is_not_a_value_of_the_plan() -> None:
    captured = capture(Convolutions(), torch.randn(2, 3, 8, 8))
    ops = [n for n in captured.traced.graph.nodes if n.op == "call_function"]
    assert len(captured.groups) < len(ops) / 2
    full = 2 * 4 * 8 * 8
    stored = [v for v in captured.described.values if v.node is not None and v.kind in ("activation", "gradient")
              and isinstance(v.node.meta["val"], torch.Tensor) and v.node.meta["val"].numel() == full]
    # forward: two convolutions, two relus, one mask; backward: at most a sum, its inputs and two norms' gradients
    assert len(stored) <= 11
    assert not any(kind_of(v.node) is Kind.VIEW for v in stored)


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(4, 500)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(self.head(x), torch.arange(len(x)), reduction="none")


def test_the_loss_of_each_sample_is_picked_from_what_is_not_stored() -> None:
    """Of the size of the logits are they and their gradient alone."""
    captured = capture(Classes(), torch.randn(16, 4))
    stored = [v for v in captured.described.values if v.node is not None and isinstance(v.node.meta["val"], torch.Tensor)
              and v.node.meta["val"].numel() == 16 * 500]
    assert [v.kind for v in stored] == ["activation", "gradient"]


def test_inductor_computes_what_is_picked_inside_of_the_op() -> None:
    """What the planned units rest on: a gather computes its source at the elements that it picks."""
    from torch._inductor.utils import run_and_get_code

    torch._dynamo.reset()
    pick = torch.compile(lambda x, at: (x.sin() * 3 - 1).gather(1, at), backend="inductor")
    _, (code,) = run_and_get_code(pick, torch.randn(16, 500), torch.arange(16).unsqueeze(1))
    assert "empty_strided" in code
    assert not any("empty_strided" in line and "500" in line for line in code.splitlines())


def test_random_ops_are_functions_of_saved_seeds() -> None:
    captured = capture(blocks(2, 0.5), torch.randn(4, 16))
    random = [n for n in captured.joint.graph.nodes if isinstance(n.target, torch._ops.OpOverload)
              and torch.Tag.nondeterministic_seeded in n.target.tags]
    assert [n.target for n in random] == [torch.ops.prims.inductor_seeds.default]


# ---- cuts ----


def test_segments_keep_the_order_and_split_no_unit() -> None:
    captured = capture(blocks(4), torch.randn(64, 16), 0.5)
    assert any(kind == "compute" for kind, _, _ in captured.plan.steps)
    for module in captured.programs:
        steps = cut(module, 10)
        place = {n: i for i, n in enumerate(module.graph.nodes)}
        segments = [s for s in steps if isinstance(s, Segment)]
        assert len(segments) > 2
        flat = [n for s in segments for n in s.nodes]
        assert [place[n] for n in flat] == sorted(place[n] for n in flat)
        for before, after in zip(segments, segments[1:]):
            assert before.nodes[-1].meta["neap_unit"] != after.nodes[0].meta["neap_unit"]
        for segment in segments:
            origins = [n.meta["neap_origin"] for n in segment.nodes]
            assert len(origins) == len(set(origins))  # never a node and its recomputation
            assert all(base_of(n) is n for n in segment.inputs)  # views do not cross


# ---- compiled ----


def test_recomputed_program_gives_what_the_model_gives() -> None:
    x = torch.randn(64, 16)
    model = blocks(4)
    expected = train(copy.deepcopy(model), "aot_eager", x)
    captured = Captured(0.5)
    actual = train(model, captured, x)
    assert all(close(a, b) for a, b in zip(actual, expected))
    assert recomputed(captured)
    values = captured.described.values
    fixed = sum(v.bytes for v in values if v.kind in ("parameter", "input"))
    for program, module in zip(captured.programs, captured.modules):
        assert max(bytes_between_steps(program, module)) + fixed <= captured.plan.peak


def test_equal_segments_are_compiled_once() -> None:
    captured = Captured(None, segment_nodes=12)
    train(blocks(6), captured, torch.randn(8, 16))
    for program in captured.programs:
        assert len(program.segments) >= 6
        assert program.compiled <= len(program.segments) - 3


def test_dropout_is_replayed() -> None:
    x = torch.randn(64, 16)
    model = blocks(3, 0.5)
    stored = train(copy.deepcopy(model), Captured(None), x)
    recomputed = train(model, Captured(0.55), x)
    assert all(close(a, b) for a, b in zip(recomputed, stored))


def test_batch_norm_statistics_advance_once_a_step() -> None:
    x = torch.randn(4, 3, 8, 8)
    torch.manual_seed(0)
    model = Convolutions()
    reference = copy.deepcopy(model)
    expected = train(reference, "aot_eager", x, steps=2)
    captured = Captured(0.8)
    actual = train(model, captured, x, steps=2)
    assert aten.convolution.default in recomputed(captured)
    assert all(close(a, b) for a, b in zip(actual, expected))
    for mine, theirs in zip(model.buffers(), reference.buffers()):
        assert torch.allclose(mine.float(), theirs.float(), atol=1e-5)
    layouts = [n.meta["val"].is_contiguous(memory_format=torch.channels_last)
               for n in captured.joint.graph.nodes if n.target is aten.convolution.default]
    assert layouts == [True, True]


def test_statistics_advance_next_to_their_batch_norm() -> None:
    captured = capture(Convolutions(), torch.randn(2, 3, 8, 8))
    module = captured.programs[0]
    norms = [n for n in module.graph.nodes if n.target is aten.var_mean.correction]
    advance_writes(module.graph)
    module.graph.lint()
    segments = [s for s in cut(module, 4) if isinstance(s, Segment)]  # shorter than a norm with its updates
    for norm in norms:
        home = next(s for s in segments if norm in s.nodes)
        written = {n.args[0] for n in home.nodes if has_effect(n) and n.args[0].meta["val"].is_floating_point()}
        assert len(written) == 2  # running mean and variance
    assert advance_writes(module.graph) == 0


def test_writes_stay_behind_readers_of_the_old_value() -> None:
    graph = fx.Graph()
    old = graph.placeholder("old")
    x = graph.placeholder("x")
    new = graph.call_function(aten.sin.default, (x,))
    reader = graph.call_function(aten.add.Tensor, (old, 1))
    other = graph.call_function(aten.cos.default, (new,))
    graph.call_function(aten.copy_.default, (old, new))
    graph.output((reader, other))
    for node in graph.nodes:
        node.meta["val"] = torch.empty(4)
    assert advance_writes(graph) == 0  # it would pass `reader`
    reader.replace_all_uses_with(new)
    graph.erase_node(reader)
    assert advance_writes(graph) == 1
    ops = [n.target for n in graph.nodes if n.op == "call_function"]
    assert ops == [aten.sin.default, aten.copy_.default, aten.cos.default]


def test_python_functions_run_in_their_place() -> None:
    calls = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        calls.append(tensor.shape)
        return tensor.clone()

    graph = fx.Graph()
    example = torch.randn(4, 8)
    x = graph.placeholder("x")
    x.meta["val"] = example
    first = graph.call_function(aten.sin.default, (x,))
    shown = graph.call_function(aten.view.default, (first, [8, 4]))
    copied = graph.call_function(note, (shown,))
    last = graph.call_function(aten.cos.default, (copied,))
    back = graph.call_function(aten.permute.default, (last, [1, 0]))
    graph.output((back, x))
    for node, value in ((first, example), (shown, example.view(8, 4)), (copied, example.view(8, 4)),
                        (last, example.view(8, 4)), (back, example.view(8, 4).t())):
        node.meta["val"] = value
    program = inductor.compile_in_order(fx.GraphModule({}, graph), [example])
    args = [example]
    result, same = program(args)
    assert args == [] and same is example
    assert calls == [torch.Size([8, 4])] and len(program.segments) == 2
    assert torch.allclose(result, example.sin().view(8, 4).cos().t())


def test_segments_run_alone_before_the_step() -> None:
    """Each once; not those that index with numbers that they compute."""
    graph = fx.Graph()
    x, rows = graph.placeholder("x"), graph.placeholder("rows")
    example, numbers = torch.randn(4, 8), torch.tensor([0, 3])
    aten = torch.ops.aten
    values = {x: example, rows: numbers}

    def add(op: object, *args: object) -> fx.Node:
        node = graph.call_function(op, args)
        values[node] = op(*fx.node.map_arg(args, values.__getitem__))
        node.meta["neap_unit"] = len(values)
        return node

    first = add(aten.sin.default, x)
    second = add(aten.cos.default, first)
    taken = add(aten.index.Tensor, second, [rows])
    moved = add(aten.index.Tensor, taken, [add(aten.remainder.Scalar, rows, 2)])
    graph.output((taken, moved))
    for node, value in values.items():
        node.meta["val"] = value
    program = inductor.compile_in_order(fx.GraphModule({}, graph), [example, numbers], segment_nodes=1)
    assert len(program.segments) == 3
    before = torch.get_rng_state()
    assert tune([*program.codes, *program.codes, None], torch.device("cpu")) == 2
    assert torch.equal(torch.get_rng_state(), before)


def test_what_only_a_forward_op_can_write_comes_from_it() -> None:
    graph = fx.Graph()
    gradient, x, indices = (graph.placeholder(name) for name in ("gradient", "x", "indices"))
    pool = torch.ops.aten.max_pool2d_with_indices_backward.default
    node = graph.call_function(pool, (gradient, x, [2, 2], [2, 2], [0, 0], [1, 1], False, indices))
    examples = (torch.randn(1, 2, 4, 4), torch.randn(1, 2, 8, 8), torch.zeros(1, 2, 4, 4, dtype=torch.int64))
    for source, value in zip((gradient, x, indices), examples):
        source.meta["val"] = value
    layouts = [(tuple(v.shape), v.stride(), v.dtype, v.device) for v in examples]
    code = SegmentCode(lambda args: None, [node], [gradient, x, indices], layouts, [False] * 3, [node])
    made = inputs_of(code, torch.device("cpu"))
    assert [m.shape for m in made] == [v.shape for v in examples]
    assert len(made[2].unique()) > 16 and int(made[2].max()) < 64


def test_equal_kernels_of_two_graphs_are_compiled_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codecache import LambdaFuture
    from torch._inductor.codegen.triton import TritonScheduling
    from torch._inductor.virtualized import V

    started = []

    def start(self: object, name: str, code: str, device_str: str = "cuda") -> LambdaFuture:
        started.append(name)
        return LambdaFuture(object)  # another object at each call

    def define(self: object, code: str) -> str:
        return f"kernel_{V.graph.wrapper_code.next_kernel_suffix()}"

    def name_in_a_new_graph(code: str) -> str:
        wrapper = SimpleNamespace()
        with V.set_graph_handler(SimpleNamespace(wrapper_code=wrapper)):
            name = TritonScheduling.define_kernel(None, code)
        assert not hasattr(wrapper, "next_kernel_suffix")  # other kernels keep their numbers
        return name

    monkeypatch.setattr(AsyncCompile, "triton", start)
    monkeypatch.setattr(TritonScheduling, "define_kernel", define)
    with inductor.deferred_kernels():
        names = [name_in_a_new_graph(code) for code in ("add", "mul", "add")]
        first, other, second = (AsyncCompile().triton(name, f"def {name}", device_str="cuda") for name in names)
    assert names[0] == names[2] != names[1] and started == names[:2]
    assert first.result() is second.result() is first.result() is not other.result()
    assert AsyncCompile.triton is start and TritonScheduling.define_kernel is define


def test_a_second_compilation_comes_from_inductors_cache() -> None:
    from torch._dynamo.utils import counters

    x = torch.randn(8, 16)
    train(blocks(1), Captured(None), x)
    torch._dynamo.reset()
    counters.clear()  # and a new Captured starts without compiled segments
    captured = Captured(None)
    train(blocks(1), captured, x)
    assert counters["inductor"]["fxgraph_cache_miss"] == 0
    assert counters["inductor"]["fxgraph_cache_hit"] == sum(p.compiled for p in captured.programs) > 0
