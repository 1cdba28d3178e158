"""neap.torch.arena_step: the passes of compiled graphs, recorded and replayed on the CPU."""

from __future__ import annotations

import copy

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import min_cut_rematerialization_partition  # noqa: E402
from torch import nn  # noqa: E402
from torch._functorch.aot_autograd import aot_module_simplified  # noqa: E402

from neap.torch import arena, arena_step, eager  # noqa: E402
from neap.torch.arena_step import Session, StrictStep, idle_bytes, session_of  # noqa: E402


pytestmark = pytest.mark.usefixtures("arena_extension")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.convolutions = nn.ModuleList(nn.Conv2d(8, 8, 3, padding=1) for _ in range(3))
        self.norm = nn.BatchNorm2d(8)
        self.head = nn.Linear(8, 10)

    def forward(self, x):
        for convolution in self.convolutions:
            x = torch.nn.functional.gelu(self.norm(convolution(x))) + x
        return self.head(x.mean((2, 3)))


class Compiled:
    """A module compiled by AOTAutograd with eager kernels, strictly if a session is given."""

    def __init__(self, session: Session | None = None, module: nn.Module | None = None):
        torch.manual_seed(0)
        self.module = Net() if module is None else module
        self.session = session
        self.graphs = {}

        def backend(module, inputs):
            return aot_module_simplified(
                module,
                inputs,
                fw_compiler=lambda module, inputs: self.pass_of("forward", module),
                bw_compiler=lambda module, inputs: self.pass_of("backward", module),
                partition_fn=self.partition,
            )

        torch._dynamo.reset()
        self.function = torch.compile(self.module, backend=backend, dynamic=False)

    def partition(self, module, inputs, *, num_fwd_outputs, **more):
        self.outputs = num_fwd_outputs
        return min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **more)

    def pass_of(self, name, module):
        self.graphs[name] = eager.compile_graph(module, name)
        if self.session is None:
            return self.graphs[name]
        if name == "forward":
            return self.session.forward(lambda args: self.graphs[name](args), self.outputs)
        return self.session.backward(lambda args: self.graphs[name](args))

    def loss(self, x):
        return self.function(x).square().mean()

    def gradients(self):
        return [p.grad for p in self.module.parameters()]


def data(number: int) -> torch.Tensor:
    torch.manual_seed(100 + number)
    return torch.randn(4, 8, 12, 12)


def train(model: Compiled, steps: int, after=lambda: None) -> list[torch.Tensor]:
    optimizer = torch.optim.SGD(model.module.parameters(), lr=0.01, momentum=0.9)
    seen = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = model.loss(data(number))
        loss.backward()
        optimizer.step()
        seen += [loss.detach().clone(), *(p.detach().clone() for p in model.module.parameters())]
        seen += [b.clone() for b in model.module.buffers()]
        after()
    return seen


@pytest.fixture
def session():
    """A session of its own."""
    return Session(arena.Arena("cpu"))


def test_units_count_from_zero_outside_the_passes(session):
    train(Compiled(session), 3)
    assert session.arena._module.count_from(0) == 0


def test_training_is_identical_and_in_the_arena(session):
    expected = train(Compiled(), 6)
    model = Compiled(session)
    steps = []
    found = train(model, 6, lambda: steps.append(session.stats().steps))
    assert all(map(torch.equal, found, expected)) and len(found) == len(expected)
    assert steps == [0, 0, 1, 2, 3, 4]
    stats, (layout,) = session.stats(), session.layouts
    assert layout.peak <= layout.bytes <= 1.002 * layout.peak
    assert (stats.native_steps, stats.fallbacks) == (0, 0), stats
    assert stats.high_water == layout.bytes and stats.peak_live == layout.peak
    gradients = sum(-(-p.numel() * 4 // 512) * 512 for p in model.module.parameters())
    assert stats.live_bytes == gradients and stats.moved_bytes == 0
    model.module.zero_grad()
    assert session.stats().live_bytes == 0


def test_two_forward_passes_before_their_backward_passes(session):
    model, plain = Compiled(session), Compiled()
    train(model, 4), train(plain, 4)
    for number in range(4):  # the first goes another way than expected, the next is recorded
        session.arena.reset_stats()
        for one in (model, plain):
            one.module.zero_grad()
            first, second = one.loss(data(10)), one.loss(data(11))
            second.backward()
            first.backward()
            del first, second
        assert all(map(torch.equal, model.gradients(), plain.gradients()))
    stats = session.stats()
    assert (stats.steps, stats.fallbacks) == (1, 0) and stats.misses == 0
    assert stats.high_water == session.layouts[1].bytes > session.layouts[0].bytes
    for one in (model, plain):
        one.module.zero_grad()
    for number in range(40):  # in turn: never as expected, and recorded only once
        for one in (model, plain):
            losses = [one.loss(data(k)) for k in range(1 + number % 2)]
            for loss in losses:
                loss.backward()
            del losses, loss
    assert all(map(torch.equal, model.gradients(), plain.gradients()))
    assert len(session.layouts) <= 3
    session.arena.reset_stats()
    found, expected = train(model, 3), train(plain, 3)
    assert all(map(torch.equal, found, expected)) and session.stats().steps == 3


def test_a_graph_that_is_retained_runs_backward_twice(session):
    model, plain = Compiled(session), Compiled()
    train(model, 4), train(plain, 4)
    for one in (model, plain):
        loss = one.loss(data(10))
        with torch._functorch.config.patch(donated_buffer=False):
            loss.backward(retain_graph=True)
            other = one.loss(data(11))
            loss.backward()
            other.backward()
    assert all(map(torch.equal, model.gradients(), plain.gradients()))
    found, expected = train(model, 4), train(plain, 4)
    assert all(map(torch.equal, found, expected))


def test_forward_passes_without_backward(session):
    model, plain = Compiled(session), Compiled()
    train(model, 3), train(plain, 3)
    for number in range(3):
        losses = [one.loss(data(number)) for one in (model, plain)]
        assert torch.equal(*losses)
    del losses
    session.arena.reset_stats()
    found, expected = train(model, 4), train(plain, 4)  # recorded anew: the passes overlapped
    assert all(map(torch.equal, found, expected)) and session.stats().steps >= 2
    held = []
    for number in range(3):  # and with all of them kept
        held += [[one.loss(data(number)) for one in (model, plain)]]
    for one, other in held:
        one.backward(), other.backward()
    assert all(map(torch.equal, model.gradients(), plain.gradients()))


def test_several_graphs_in_a_step(session):
    torch.manual_seed(3)
    tail, plain_tail = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 10)), None
    plain_tail = copy.deepcopy(tail)
    rows = []
    for part, module in ((session, tail), (None, plain_tail)):
        body = Compiled(part)
        end = Compiled(part, module)
        seen = []
        for number in range(6):
            body.module.zero_grad(), module.zero_grad()
            loss = end.function(body.function(data(number))).square().mean()
            loss.backward()
            seen += [loss.detach().clone(), *(p.grad.clone() for p in body.module.parameters())]
            seen += [p.grad.clone() for p in module.parameters()]
        rows.append(seen)
    assert all(map(torch.equal, *rows))
    stats = session.stats()
    assert stats.steps == 4 and stats.fallbacks == 0, stats
    assert [len(sequence) for sequence in session._known] == [4]
    assert stats.high_water == session.layouts[0].bytes


def test_the_users_tensors_are_never_overwritten(session):
    model = Compiled(session)
    held = []
    for number in range(6):
        result = model.function(data(number))
        held.append((result, result.detach().clone()))
        result.square().mean().backward()
    assert session.stats().steps == 4
    assert all(torch.equal(result, copy) for result, copy in held)


def test_gradients_are_accumulated_and_kept(session):
    model, plain = Compiled(session), Compiled()
    train(model, 3), train(plain, 3)
    session.arena.reset_stats()
    for one in (model, plain):
        one.module.zero_grad()
    held = []
    for number in range(6):
        for one in (model, plain):
            one.loss(data(number)).backward()
        assert all(map(torch.equal, model.gradients(), plain.gradients()))
        if number == 2:
            held = [one.gradients() for one in (model, plain)]
            for one in (model, plain):
                one.module.zero_grad()
    assert all(map(torch.equal, *held))
    stats = session.stats()
    assert stats.fallbacks == 0 and stats.steps == 6 and stats.moved_bytes > 0


def test_large_outputs_lie_in_the_arena_and_move_out(session, monkeypatch):
    monkeypatch.setattr(arena_step, "SMALL_OUTPUTS", 0)
    model, plain = Compiled(session), Compiled()
    train(model, 3), train(plain, 3)
    held = []
    for number in range(3):
        rows = [one.function(data(number)) for one in (model, plain)]
        assert session.arena.owner(rows[0]) is not None
        held.append((rows[0].detach(), rows[1].detach()))
        for row in rows:
            row.square().mean().backward()
        del row, rows
    assert all(torch.equal(*pair) for pair in held)
    assert session.arena.owner(held[0][0]) is None


def test_an_error_in_a_pass_does_not_stop_later_steps(session):
    model, plain = Compiled(session), Compiled()
    train(model, 4), train(plain, 4)
    forward = model.graphs["forward"]

    def failing(args):
        forward(args)
        raise ZeroDivisionError

    model.graphs["forward"] = failing
    buffers = [b.clone() for b in model.module.buffers()]
    with pytest.raises(ZeroDivisionError):
        model.loss(data(0))
    model.graphs["forward"] = forward
    for buffer, before in zip(model.module.buffers(), buffers):
        buffer.copy_(before)
    session.arena.reset_stats()
    found, expected = train(model, 2), train(plain, 2)
    assert all(map(torch.equal, found, expected)) and session.stats().steps == 2
    model.module.zero_grad()
    assert session.stats().live_bytes == 0


def test_the_arena_is_shared_and_grows(session):
    small, large = Compiled(session), Compiled(session)
    train(small, 4)
    before = session.stats().bytes
    big = torch.randn(16, 8, 24, 24)
    for _ in range(4):
        large.function(big).sum().backward()
    assert session.stats().bytes > before
    session.arena.reset_stats()
    train(small, 2)
    stats = session.stats()
    assert (stats.steps, stats.fallbacks) == (2, 0), stats


def test_small_allocations_may_stay_with_pytorch():
    session = Session(arena.Arena("cpu"), least=4096)
    found, expected = train(Compiled(session), 5), train(Compiled(), 5)
    assert all(map(torch.equal, found, expected))
    stats = session.stats()
    assert stats.fallbacks == 0 and stats.steps == 3
    assert all(size >= 4096 for row in session.layouts[0].rows for size, _ in row)
    assert stats.high_water == session.layouts[0].bytes


def test_a_device_has_one_session():
    session = session_of("cpu")
    step = StrictStep("cpu", list, list, 1)
    assert step.session is session
    assert session_of(torch.device("cpu")) is session
    idle = idle_bytes(torch.device("cpu"))
    session.arena.reserve(idle + 4096)
    assert idle_bytes(torch.device("cpu")) == session.stats().bytes >= 4096
    assert idle_bytes(torch.device("cuda", 7)) == 0
    session.arena.release()
