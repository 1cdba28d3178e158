"""strict=True from the first step on: what a step will allocate is known before it runs."""

from __future__ import annotations

import logging

import pytest

torch = pytest.importorskip("torch")

import neap.torch  # noqa: E402
from harness import Bits, assert_same_bits, forget, gradients  # noqa: E402
from neap.errors import InfeasibleError  # noqa: E402
from neap.torch import arena, arena_step  # noqa: E402
from neap.torch.arena_forecast import Forecast  # noqa: E402
from neap.torch.arena_layout import Allocation  # noqa: E402
from neap.torch.arena_room import SPARE, Room, segment_bytes  # noqa: E402
from neap.torch.arena_step import Session  # noqa: E402
from torch import nn  # noqa: E402

pytestmark = pytest.mark.usefixtures("arena_extension")


class Net(nn.Module):
    """Convolutions, batch norm, dropout, a view, and ops with temporaries."""

    def __init__(self, breaks: bool = False) -> None:
        super().__init__()
        self.breaks = breaks
        self.convolutions = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(4))
        self.norms = nn.ModuleList(nn.BatchNorm2d(8) for _ in range(4))
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        for convolution, norm in zip(self.convolutions, self.norms):
            x = self.drop(torch.nn.functional.gelu(norm(convolution(x)))) + x
        if self.breaks:
            torch._dynamo.graph_break()
        return self.head(x.flatten(2).mean(2)).logsumexp(1)


def data(number: int) -> torch.Tensor:
    return torch.randn(8, 8, 32, 32, generator=torch.Generator().manual_seed(number))


@pytest.fixture
def session(monkeypatch):
    """The session of the CPU for one test."""
    one = Session(arena.Arena("cpu"))
    monkeypatch.setitem(arena_step._sessions, torch.device("cpu"), one)
    return one


def train(backend, steps=4, module=None, optimize=torch.optim.AdamW, after=lambda module, optimizer: None):
    """What a training computes, in every bit."""
    forget()
    torch.manual_seed(3)
    module = Net() if module is None else module
    run = torch.compile(module, backend=backend, dynamic=False)
    optimizer = optimize(module.parameters())
    seen = {}
    for number in range(steps):
        optimizer.zero_grad()
        loss = run(data(number)).mean()
        loss.backward()
        seen |= {f"step {number}: {name}": Bits.of(t) for name, t in gradients(module).items()}
        seen[f"step {number}: loss"] = Bits.of(loss)
        del loss
        optimizer.step()
        after(module, optimizer)
    return seen | {name: Bits.of(value) for name, value in module.state_dict().items()}


def strict(budget="60%", **options):
    return neap.torch.backend(**{"budget": budget, "kernels": "eager", "strict": True, "time_limit": 2} | options)


class Watch:
    """The statistics of each step of a session."""

    def __init__(self, session):
        self.session = session
        self.steps = []
        self.gradients_placed = []

    def __call__(self, module, optimizer):
        self.steps.append(self.session.stats())
        placed = [self.session.arena.owner(p.grad) is not None for p in module.parameters()]
        self.gradients_placed.append(all(placed))
        self.session.arena.reset_stats()


# ---- the first steps of a model ----


def test_every_step_lies_in_the_arena_within_the_budget(session):
    expected = train("aot_eager")
    backend, watch = strict(), Watch(session)
    assert_same_bits(train(backend, after=watch), expected)
    (report,) = backend.reports
    known = list(session._expected.values())[-1]
    assert report.plan.peak < report.natural_peak
    for stats in watch.steps:
        assert stats.steps == 1 and stats.native_steps == 0
        assert stats.fallbacks == 0 and stats.placed > 150, stats
        assert stats.bytes + known.room.resident + known.room.others <= report.budget
    assert all(watch.gradients_placed)


def test_the_forecast_equals_the_recording(session):
    train(strict(), steps=3)
    expected, (recorded,) = list(session._expected.values())[-1], session._known.values()
    assert expected.sequence == recorded.sequence
    assert expected.layout.rows and [[size for size, _ in row] for row in expected.layout.rows] == [
        [size for size, _ in row] for row in recorded.layout.rows]
    assert expected.layout.peak == recorded.layout.peak
    assert expected.layout.native_bytes == recorded.layout.native_bytes


def test_after_the_first_steps_the_arena_is_no_larger_than_needed(session):
    sizes = []
    train(strict(budget=1 << 30), after=lambda *_: sizes.append(session.stats().bytes))
    (exact,) = session.layouts
    assert sizes[0] == sizes[1] > sizes[2] == sizes[3] == exact.bytes


def test_a_step_that_would_reserve_too_much_is_planned_again(session, monkeypatch, messages):
    """With so much memory at other places that the first plan does not fit."""
    limit = Room.limit
    monkeypatch.setattr(Room, "limit", lambda self, arena: limit(self, arena) - (128 << 10))
    backend = strict("70%")
    logging.getLogger("neap").setLevel(logging.INFO)
    train(backend, steps=1)
    assert any("planning again" in text for text in messages)
    (known,) = session._expected.values()  # that of the first plan is forgotten
    assert known.layout.bytes <= known.room.limit(session.arena)


def test_without_measuring_results_are_placed_and_the_rest_goes_anywhere(session):
    expected = train("aot_eager")
    backend, watch = strict("90%", measure=False), Watch(session)
    assert_same_bits(train(backend, after=watch), expected)
    assert watch.steps[0].placed > 40 and watch.steps[0].spilled > 0
    assert watch.steps[2].fallbacks == 0


def test_the_arena_goes_with_its_last_model(session):
    train(strict("70%"))
    forget()
    assert session.stats().bytes == 0


def test_an_arena_that_holds_gradients_goes_when_memory_is_asked_for(session):
    module = seeded(Net())
    train(strict("70%"), module=module)
    forget()
    assert session.stats().bytes > 0
    expected = module.head.weight.grad.clone()
    assert arena_step.idle_bytes(torch.device("cpu")) == session.stats().bytes == 0
    assert torch.equal(module.head.weight.grad, expected)


def test_copies_to_the_host_and_back(session):
    expected = train("aot_eager")
    backend, watch = strict("55%", offload=neap.Link(1e12, 1e12)), Watch(session)
    assert_same_bits(train(backend, after=watch), expected)
    assert any(kind == "offload" for kind, *_ in backend.reports[-1].plan.steps)
    assert all(stats.fallbacks == 0 for stats in watch.steps)


def test_the_graphs_of_a_step_with_breaks_lie_in_the_arena(session):
    expected = train("aot_eager", steps=5, module=seeded(Net(breaks=True)))
    natural = train_peak()
    backend, watch = strict(int(natural * 0.9)), Watch(session)
    assert_same_bits(train(backend, steps=5, module=seeded(Net(breaks=True)), after=watch), expected)
    assert len({report.name for report in backend.reports}) == 2
    assert [stats.native_steps for stats in watch.steps] == [0] * 5
    assert watch.steps[0].fallbacks == 0 and watch.steps[0].spilled > 0, watch.steps[0]
    assert watch.steps[-1].fallbacks == 0


def seeded(module: nn.Module) -> nn.Module:
    torch.manual_seed(3)
    return type(module)(module.breaks)


def train_peak() -> int:
    """What a step needs without a plan."""
    backend = neap.torch.backend(budget="100%", kernels="eager")
    train(backend, steps=1)
    return backend.reports[0].natural_peak


def test_a_budget_that_cannot_be_met_is_refused(session):
    with pytest.raises(InfeasibleError):
        train(strict(1 << 20))


# ---- Inductor ----


def test_segments_of_inductor(session):
    class Small(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(2))

        def forward(self, x):
            for layer in self.layers:
                x = torch.nn.functional.gelu(layer(x)) + x
            return x.sum(1)

    torch.manual_seed(3)
    module = Small()
    inputs = torch.randn(4096, 32)
    forget()
    run = torch.compile(module, backend=strict(8 << 20, kernels="inductor"), dynamic=False)
    plain = gradients_of(module, lambda x: module(x), inputs)
    for _ in range(3):
        for name, gradient in gradients_of(module, run, inputs).items():
            torch.testing.assert_close(gradient, plain[name])
        stats = session.stats()
        assert stats.steps == 1 and stats.fallbacks == 0 and stats.spilled == 0, stats
        session.arena.reset_stats()


def gradients_of(module, run, inputs):
    module.zero_grad()
    run(inputs).square().mean().backward()
    return {name: p.grad.clone() for name, p in module.named_parameters()}


# ---- what does not go as expected ----


def forecast_of(size: int) -> Forecast:
    """One tensor that the forward pass saves, and a gradient."""
    saved, gradient = Allocation(size, 0, 2, 0), Allocation(size, 1, None, 0, mark=2)
    return Forecast([(0, saved), (1, gradient)], 1, 1, 0)


def passes_of(session, size):
    elements = size // 4

    def forward(args):
        args.clear()
        return (None, torch.ones(elements))

    def backward(args):
        args.clear()
        return (torch.full((elements,), 2.0),)

    wrapped = session.forward(forward, 1), session.backward(backward)
    return wrapped, session.expect(*wrapped, forecast_of(size), Room(budget=1 << 20, resident=0, shared=True))


def test_two_forward_passes_in_the_first_step(session):
    (forward, backward), layout = passes_of(session, 4096)
    assert layout.bytes == 2 * 4096
    first, second = forward([])[1], forward([])[1]
    stats = session.stats()
    assert (stats.placed, stats.spilled, stats.bytes) == (1, 1, 1 << 20)
    assert session.arena.owner(first) == session.arena.owner(second) == 1
    del second
    backward([])
    (gradient,) = backward([])
    assert bool((first == 1).all()) and bool((gradient == 2).all())
    assert session.stats().fallbacks == 0


def test_another_graph_in_the_first_step(session):
    (forward, backward), _ = passes_of(session, 4096)
    (other, other_backward), _ = passes_of(session, 8192)
    results = [forward([])[1], other([])[1]]
    results += [*other_backward([]), *backward([])]
    assert all(session.arena.owner(one) == 1 for one in results)
    stats = session.stats()
    assert (stats.placed, stats.spilled, stats.fallbacks) == (2, 2, 0)


def test_an_arena_that_is_full_leaves_the_rest_to_pytorch(session):
    block = arena.Arena("cpu", 3 * 4096)
    table = arena.Table(block, [[(4096, 0)]], spill=True)
    begin = arena.begin_function()
    with table.run(block.step()):
        begin(0)
        planned = torch.empty(1024)
        behind = torch.empty(512)  # not expected: behind what is planned
        begin(7)  # no row
        more = torch.empty(1024)
        full = torch.empty(1024)
    base = planned.data_ptr()
    assert behind.data_ptr() - base == 4096 and more.data_ptr() - base == 4096 + 2048
    assert block.owner(full) is None
    stats = block.stats()
    assert (stats.placed, stats.spilled, stats.misses, stats.occupied) == (1, 2, 1, 0)
    assert (stats.spilled_bytes, stats.miss_bytes) == (2048 + 4096, 4096)


def test_the_smallest_gap_that_fits_is_taken():
    block = arena.Arena("cpu", 8 * 4096)
    rows = [[(4096, i * 4096)] for i in range(7)]
    begin = arena.begin_function()
    step = block.step()
    with arena.Table(block, rows).run(step):
        held = []
        for unit in range(7):
            begin(unit)
            held.append(torch.empty(1024))
    base = held[0].data_ptr()
    for gone in (1, 2, 5):
        held[gone] = None
    with arena.Table(block, [], spill=True).run(step):
        small, large, end = torch.empty(1000), torch.empty(2048), torch.empty(10)
    assert [one.data_ptr() - base for one in (small, large, end)] == [5 * 4096, 4096, 7 * 4096]


def test_units_without_a_row_need_spilling():
    block = arena.Arena("cpu", 4096)
    begin = arena.begin_function()
    with arena.Table(block, [[(512, 0)]]).run(block.step()), pytest.raises(IndexError):
        begin(1)


def test_room():
    block = arena.Arena("cpu")
    room = Room(budget=100 << 20, resident=10 << 20, others=10 << 20)
    assert room.limit(block) == 80 << 20
    assert room.arena_bytes(block, 16 << 20) == (16 + 2) << 20
    assert room.arena_bytes(block, 1 << 20) == (1 << 20) + SPARE["cpu"]
    assert room.arena_bytes(block, 79 << 20) == (79 << 20) + (1 << 19)
    assert room.arena_bytes(block, 90 << 20) == 90 << 20
    room.shared = True
    assert room.arena_bytes(block, 16 << 20) == 80 << 20


def test_segments_of_the_caching_allocator():
    mib = 1 << 20
    assert segment_bytes([]) == 0
    assert segment_bytes([100, mib]) == 2 * mib
    assert segment_bytes([mib, mib, 1]) == 4 * mib
    assert segment_bytes([9 * mib, 9 * mib, 3 * mib]) == 40 * mib
    assert segment_bytes([10 * mib + 1]) == 12 * mib


def test_passes_that_are_gone_are_forgotten(session):
    (forward, backward), _ = passes_of(session, 4096)
    for _ in range(3):
        backward([forward([])[1]])
    assert len(session._expected) == 1
    session.forget(forward, backward)
    assert not session._expected and not session._known


# ---- optimizers ----


def test_optimizers_take_their_temporaries_from_the_arena(session):
    def optimize(parameters):
        return torch.optim.AdamW(parameters, foreach=True)

    expected = train("aot_eager", optimize=optimize)
    owners, spilled = [], []

    def after(module, optimizer):
        state = next(iter(optimizer.state.values()))["exp_avg"]
        owners.append(session.arena.owner(state))
        spilled.append(session.stats().spilled)

    assert_same_bits(train(strict(), optimize=optimize, after=after), expected)
    assert owners == [1, None, None, None], "new state moves out when the next step begins"
    assert spilled[0] > 0 and spilled[3] > spilled[2] > spilled[1]
    assert session.stats().fallbacks == 0


def test_an_optimizer_that_fails_does_not_keep_the_arena(session):
    train(strict(), steps=3)
    parameter = nn.Parameter(torch.ones(1000))
    optimizer = torch.optim.AdamW([parameter])
    parameter.grad = torch.ones(1000)
    optimizer.param_groups[0]["betas"] = None
    with pytest.raises(TypeError):
        optimizer.step()
    train(strict(), steps=2)
    assert session.arena.owner(torch.empty(1000)) is None


def test_optimizers_with_the_users_code_stay_outside(session):
    train(strict(), steps=2)
    parameter = nn.Parameter(torch.ones(1000))
    seen = []

    def closure():
        seen.append(session.arena.owner(torch.empty(2000)))
        parameter.grad = torch.ones(1000)
        return parameter.sum()

    torch.optim.AdamW([parameter]).step(closure)
    assert seen == [None]
