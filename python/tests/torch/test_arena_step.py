"""neap.torch.arena_step: the passes of compiled graphs, recorded and replayed on the CPU."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from functorch.compile import min_cut_rematerialization_partition  # noqa: E402
from torch import nn  # noqa: E402
from torch._functorch.aot_autograd import aot_module_simplified  # noqa: E402

from neap.errors import UnsupportedError  # noqa: E402
from neap.torch import arena, arena_build, arena_step, eager  # noqa: E402
from neap.torch.arena_step import StrictStep, arena_of  # noqa: E402


@pytest.fixture(scope="module", autouse=True)
def compiled():
    try:
        arena_build.extension()
    except UnsupportedError as error:
        pytest.skip(str(error))


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
    """A module compiled by AOTAutograd with eager kernels, strictly if asked."""

    def __init__(self, strict: bool, **settings):
        torch.manual_seed(0)
        self.module = Net()
        self.strict = None
        self.settings = settings
        self.is_strict = strict
        self.graphs = {}

        def backend(module, inputs):
            return aot_module_simplified(
                module,
                inputs,
                fw_compiler=self.forward_of,
                bw_compiler=self.backward_of,
                partition_fn=self.partition,
            )

        torch._dynamo.reset()
        self.function = torch.compile(self.module, backend=backend, dynamic=False)

    def partition(self, module, inputs, *, num_fwd_outputs, **more):
        self.outputs = num_fwd_outputs
        return min_cut_rematerialization_partition(module, inputs, num_fwd_outputs=num_fwd_outputs, **more)

    def pass_of(self, name, module, inputs):
        self.graphs[name] = eager.compile_graph(module, name)
        if not self.is_strict:
            return self.graphs[name]

        def run(args):
            if self.strict is None:
                self.strict = StrictStep(
                    "cpu",
                    lambda args: self.graphs["forward"](args),
                    lambda args: self.graphs["backward"](args),
                    self.outputs,
                    **self.settings,
                )
            return getattr(self.strict, name)(args)

        run._boxed_call = True
        return run

    def forward_of(self, module, inputs):
        return self.pass_of("forward", module, inputs)

    def backward_of(self, module, inputs):
        return self.pass_of("backward", module, inputs)

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


def test_training_is_identical_and_in_the_arena():
    plain = Compiled(strict=False)
    expected = train(plain, 6)
    model = Compiled(strict=True)
    arena_of("cpu").reset_stats()
    states = []
    found = train(model, 6, lambda: states.append(model.strict.replays))
    assert all(map(torch.equal, found, expected)) and len(found) == len(expected)
    assert states == [False, False, True, True, True, True]
    stats, layout = model.strict.stats(), model.strict.layout
    assert layout.peak <= layout.bytes <= 1.002 * layout.peak
    assert (stats.steps, stats.native_steps, stats.fallbacks) == (4, 0, 0), stats
    assert stats.high_water == layout.bytes and stats.peak_live == layout.peak
    gradients = sum(-(-p.numel() * 4 // 512) * 512 for p in model.module.parameters())
    assert stats.live_bytes == gradients and stats.moved_bytes == 0
    model.module.zero_grad()
    assert model.strict.stats().live_bytes == 0


def test_two_forward_passes_before_their_backward_passes():
    model, plain = Compiled(strict=True), Compiled(strict=False)
    train(model, 4), train(plain, 4)
    model.strict.arena.reset_stats()
    for one in (model, plain):
        first, second = one.loss(data(10)), one.loss(data(11))
        second.backward()
        first.backward()
    assert all(map(torch.equal, model.gradients(), plain.gradients()))
    stats = model.strict.stats()
    assert (stats.steps, stats.native_steps, stats.fallbacks) == (1, 1, 0)
    losses = [one.loss(data(12)) for one in (model, plain)]
    assert torch.equal(*losses) and model.strict.stats().steps == 2
    del losses


def test_a_graph_that_is_retained_runs_backward_twice():
    model, plain = Compiled(strict=True), Compiled(strict=False)
    train(model, 4), train(plain, 4)
    for one in (model, plain):
        loss = one.loss(data(10))
        with torch._functorch.config.patch(donated_buffer=False):
            loss.backward(retain_graph=True)
            other = one.loss(data(11))
            loss.backward()
            other.backward()
    assert all(map(torch.equal, model.gradients(), plain.gradients()))


def test_a_recording_is_dropped_when_another_step_begins():
    model, plain = Compiled(strict=True), Compiled(strict=False)
    for one in (model, plain):
        one.loss(data(0)).backward()
        first, second = one.loss(data(1)), one.loss(data(2))  # the recording of the first ends
        first.backward()
        second.backward()
    assert model.strict.layout is None
    model.strict.arena.reset_stats()
    assert all(map(torch.equal, model.gradients(), plain.gradients()))
    found, expected = train(model, 4), train(plain, 4)
    assert model.strict.replays and model.strict.stats().fallbacks == 0
    assert all(map(torch.equal, found, expected))


def test_the_users_tensors_are_never_overwritten():
    model = Compiled(strict=True)
    held = []
    for number in range(6):
        result = model.function(data(number))
        held.append((result, result.detach().clone()))
        result.square().mean().backward()
    assert model.strict.replays
    assert all(torch.equal(result, copy) for result, copy in held)


def test_gradients_are_accumulated_and_kept():
    model, plain = Compiled(strict=True), Compiled(strict=False)
    train(model, 3), train(plain, 3)
    model.strict.arena.reset_stats()
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
    stats = model.strict.stats()
    assert stats.fallbacks == 0 and stats.steps == 6 and stats.moved_bytes > 0


def test_large_outputs_lie_in_the_arena_and_move_out(monkeypatch):
    monkeypatch.setattr(arena_step, "SMALL_OUTPUTS", 0)
    model, plain = Compiled(strict=True), Compiled(strict=False)
    train(model, 3), train(plain, 3)
    held = []
    for number in range(3):
        rows = [one.function(data(number)) for one in (model, plain)]
        assert model.strict.arena.owner(rows[0]) is not None
        held.append((rows[0].detach(), rows[1].detach()))
        for row in rows:
            row.square().mean().backward()
        del row, rows
    assert all(torch.equal(*pair) for pair in held)
    assert model.strict.arena.owner(held[0][0]) is None


def test_an_error_in_a_pass_does_not_stop_later_steps():
    model, plain = Compiled(strict=True), Compiled(strict=False)
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
    found, expected = train(model, 2), train(plain, 2)
    assert all(map(torch.equal, found, expected))
    model.module.zero_grad()
    assert model.strict.stats().live_bytes == 0


def test_the_arena_is_shared_and_grows():
    small, large = Compiled(strict=True), Compiled(strict=True)
    train(small, 4)
    before = small.strict.arena.stats().bytes
    big = torch.randn(16, 8, 24, 24)
    for _ in range(4):
        large.function(big).sum().backward()
    assert large.strict.arena is small.strict.arena
    assert large.strict.arena.stats().bytes > before
    small.strict.arena.reset_stats()
    train(small, 2)
    stats = small.strict.stats()
    assert (stats.steps, stats.fallbacks) == (2, 0), stats


def test_meter_agrees_with_the_arena():
    model = Compiled(strict=True)
    train(model, 3)
    with arena.Meter("cpu", granule=512) as meter:
        model.loss(data(0)).backward()
    assert meter.peak >= model.strict.layout.peak


def test_small_allocations_may_stay_with_pytorch():
    model, plain = Compiled(strict=True, least=4096), Compiled(strict=False)
    arena_of("cpu").reset_stats()
    found, expected = train(model, 5), train(plain, 5)
    assert all(map(torch.equal, found, expected))
    stats = model.strict.stats()
    assert stats.fallbacks == 0 and stats.steps == 3
    assert all(size >= 4096 for row in model.strict.layout.rows for size, _ in row)
    assert stats.high_water == model.strict.layout.bytes
