"""Meters, recorders and replays of neap.torch.arena, on the CPU's allocator."""

from __future__ import annotations

import gc
import random
import threading

import pytest

torch = pytest.importorskip("torch")

from neap.errors import InvalidError, UnsupportedError  # noqa: E402
from neap.torch import arena, arena_build  # noqa: E402

WIDTH = 128


pytestmark = pytest.mark.usefixtures("arena_extension")


begin = None


@pytest.fixture(autouse=True)
def begin_of_the_extension(arena_extension):
    global begin
    begin = arena.begin_function()


def address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def check_no_overlap(intervals, offsets, size):
    for i, (bytes_i, start_i, end_i) in enumerate(intervals):
        assert offsets[i] % 512 == 0 and offsets[i] + bytes_i <= size
        for j in range(i):
            bytes_j, start_j, end_j = intervals[j]
            if start_i < end_j and start_j < end_i:
                apart = offsets[i] + bytes_i <= offsets[j] or offsets[j] + bytes_j <= offsets[i]
                assert apart, (intervals[i], intervals[j])


# ---- Meter ----


def test_meter_counts_bytes_in_use():
    with arena.Meter("cpu") as meter:
        a = torch.empty(1000)
        assert meter.current == 4000
        b = torch.empty(500, dtype=torch.float64)
        assert meter.current == 8000
        del a
        assert (meter.current, meter.peak) == (4000, 8000)
        meter.reset_peak()
        assert meter.peak == 4000
    after = meter.peak
    c = torch.empty(1000)
    assert meter.peak == after, "a meter that was left still counts"
    del b, c


def test_meter_sees_scratch_of_kernels_and_other_threads():
    x = torch.randn(64, 64)
    with arena.Meter("cpu") as meter:
        y = torch.linalg.solve(x, x)  # copies its input
        result = meter.current
    assert meter.peak > result == y.numel() * 4
    with arena.Meter("cpu") as meter:
        worker = threading.Thread(target=lambda: torch.empty(1 << 16))
        worker.start()
        worker.join()
    assert meter.peak == 4 << 16 and meter.current == 0


def test_meter_rounds_and_nests():
    with arena.Meter("cpu", granule=512) as rounded, arena.Meter("cpu") as exact:
        kept = torch.empty(1)
    assert (rounded.peak, exact.peak) == (512, 4)
    with arena.Meter("cpu") as later:
        del kept
    assert later.current == -4, "memory of an earlier meter is followed until it is freed"


# ---- Recorder ----


def test_record_tells_outputs_from_temporaries():
    x = torch.randn(WIDTH, WIDTH)

    def unit():
        temporary = x + 1
        first = temporary * 2
        del temporary
        temporary = first.exp()
        return [x.t(), first, temporary.sum(0), first[1]]

    result, trace = arena.record(unit)
    square, row = WIDTH * WIDTH * 4, WIDTH * 4
    big = [one for one in trace.allocations if one.bytes >= row]
    assert [(one.bytes, one.output) for one in big] == [
        (square, None),
        (square, 1),
        (square, None),
        (row, 2),
    ]
    assert big[1].address == address(result[1])
    assert square <= trace.workspace <= square + 1024, "the temporaries do not live together"
    assert trace.output_bytes == square + row


def test_recorder_is_of_one_thread():
    recorder = arena.Recorder("cpu")
    with recorder:
        worker = threading.Thread(target=lambda: torch.empty(1000))
        worker.start()
        worker.join()
        kept = torch.empty(10)
    sizes = [one.bytes for _, one in recorder.close()]
    assert sizes == [40]
    del kept


def test_recorder_refuses_to_nest_and_ends_with_an_exception():
    recorder = arena.Recorder("cpu")
    with pytest.raises(RuntimeError, match="already being recorded"):
        with recorder:
            with arena.Recorder("cpu"):
                pass
    with pytest.raises(KeyError):
        with arena.Recorder("cpu"):
            raise KeyError
    with arena.Recorder("cpu"):
        pass


# ---- Placing ----


def test_place_is_tight_and_never_overlaps():
    rng = random.Random(7)
    for _ in range(20):
        intervals = []
        for _ in range(rng.randrange(1, 60)):
            start = rng.randrange(50)
            intervals.append((512 * rng.randrange(1, 9), start, start + rng.randrange(1, 20)))
        offsets, size = arena.place(intervals)
        check_no_overlap(intervals, offsets, size)
        peak = max(sum(b for b, s, e in intervals if s <= t < e) for t in range(70))
        assert peak <= size <= 1.1 * peak
    assert arena.place([]) == ([], 0)
    assert arena.place([(512, 0, 1), (512, 1, 2)]) == ([0, 0], 512)
    with pytest.raises(InvalidError):
        arena.place([(512, 3, 3)])


# ---- A step by hand: units, a table, a replay ----


class Step:
    """Forward and backward of a chain of tanh(x @ w), op by op, one activation recomputed."""

    def __init__(self, layers: int = 6):
        torch.manual_seed(0)
        self.weights = [torch.randn(WIDTH, WIDTH) / WIDTH**0.5 for _ in range(layers)]
        self.x = torch.randn(32, WIDTH)
        self.units = []  # (function, names of results, names freed after it)
        n = layers
        for i in range(n):
            self.add(f"h{i + 1}", lambda v, i=i: torch.tanh(v[f"h{i}"] @ self.weights[i]))
        self.free(f"h{n // 2}")
        self.split = len(self.units)
        self.add("g", lambda v: v[f"h{n}"] * 2)
        for i in reversed(range(n)):
            above = "g" if i == n - 1 else f"g{i + 1}"
            self.add(f"p{i}", lambda v, i=i, g=above: v[g] * (1 - v[f"h{i + 1}"] ** 2))
            self.free(f"h{i + 1}", above)
            if i == n // 2:
                self.add(f"h{i}", lambda v, i=i: torch.tanh(v[f"h{i - 1}"] @ self.weights[i - 1]))
            self.add(f"dw{i}", lambda v, i=i: v[f"h{i}"].t() @ v[f"p{i}"])
            self.add(f"g{i}", lambda v, i=i: v[f"p{i}"] @ self.weights[i].t())
            self.free(f"p{i}")
        self.free("g0")
        self.kept = {f"dw{i}" for i in range(n)}

    def add(self, name, function):
        self.units.append((function, name, []))

    def free(self, *names):
        self.units[-1][2].extend(names)

    def run(self, values, first, last, mark=lambda unit: None, after=lambda unit: None):
        for unit in range(first, last):
            function, name, frees = self.units[unit]
            mark(unit)
            values[name] = function(values)
            after(unit)
            for dead in frees:
                del values[dead]

    def gradients(self, values):
        return [values[name] for name in sorted(self.kept)]

    def plain(self):
        values = {"h0": self.x}
        self.run(values, 0, len(self.units))
        return self.gradients(values)

    def layout(self, in_arena=False):
        values, runs = {"h0": self.x}, []
        for function, name, frees in self.units:
            values[name], trace = arena.record(lambda: function(values))
            runs.append(arena.UnitRun(trace, {0: name}, list(frees)))
            for dead in frees:
                del values[dead]
        return arena.lay_out(runs, *(((), self.kept) if in_arena else (self.kept,)))


@pytest.fixture(scope="module")
def step(arena_extension):
    return Step()


@pytest.fixture(scope="module")
def layout(step):
    return step.layout()


def replay(step, table, values=None, number=None, first=0, last=None, **more):
    number = table.arena.step() if number is None else number
    values = {"h0": step.x} if values is None else values
    with table.run(number) as run:
        step.run(values, first, len(step.units) if last is None else last, begin, **more)
    return values, run.replayed


def test_replay_gives_identical_results_at_the_planned_addresses(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    assert table.bytes == layout.bytes and layout.bytes <= 1.05 * layout.peak
    for number in range(1, 4):
        values, replayed = replay(step, table)
        assert replayed
        assert all(map(torch.equal, step.gradients(values), expected))
        block.end(number)
        stats = block.stats()
        assert (stats.fallbacks, stats.steps, stats.native_steps) == (0, number, 0), stats
        assert stats.high_water == layout.bytes and stats.peak_live == layout.peak
        assert stats.native == number * len(step.kept)
        assert stats.live_bytes == 0 and block.live() == []


def test_meter_sees_the_arena_as_planned(step, layout):
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    with arena.Meter("cpu", granule=512) as natively:
        expected = step.plain()
    del expected
    with arena.Meter("cpu", granule=512) as metered:
        values, _ = replay(step, table)
    assert block.stats().fallbacks == 0
    assert metered.peak == natively.peak
    assert metered.current == sum(g.numel() * 4 for g in step.gradients(values))


def test_outputs_outlive_the_next_steps(step, layout):
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    first, _ = replay(step, table)
    block.end(1)
    before = [g.clone() for g in step.gradients(first)]
    for _ in range(2):
        replay(step, table)
        block.end(block.stats().steps)
    assert all(map(torch.equal, step.gradients(first), before))


def test_a_tensor_that_is_held_longer_is_not_overwritten(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    held = []

    def hold(unit):
        if unit in (1, 8):
            held.append(values[step.units[unit][1]])

    values = {"h0": step.x}
    values, _ = replay(step, table, values, after=hold)
    assert all(map(torch.equal, step.gradients(values), expected))
    copies = [one.clone() for one in held]
    occupied = block.stats().occupied
    block.end(1)
    for _ in range(2):  # the next steps, too, go around what is held
        values, replayed = replay(step, table)
        assert replayed and all(map(torch.equal, step.gradients(values), expected))
        block.end(block.stats().steps)
    assert all(map(torch.equal, held, copies))
    assert block.stats().occupied > occupied and block.stats().misses == 0
    held.clear(), copies.clear()
    block.reset_stats()
    number = block.step()
    values, _ = replay(step, table, number=number)
    assert block.stats().fallbacks == 0, "the places are free again"


def test_a_second_step_in_flight_runs_natively(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    one = block.step()
    first, replayed = replay(step, table, number=one, last=step.split)
    assert replayed and block.stats().live_bytes > 0
    two = block.step()
    second, replayed = replay(step, table, number=two, last=step.split)
    assert two == 0 and not replayed and block.stats().native_steps == 1
    second, _ = replay(step, table, second, two, step.split)
    block.end(two)
    first, replayed = replay(step, table, first, one, step.split)
    block.end(one)
    assert replayed and block.stats().fallbacks == 0
    for values in (first, second):
        assert all(map(torch.equal, step.gradients(values), expected))
    assert block.step() == 2, "the arena is free again"


def test_a_forward_pass_without_backward_does_not_block_the_arena(step, layout):
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    values, _ = replay(step, table, last=step.split)
    del values
    values, replayed = replay(step, table)
    assert replayed and block.stats().native_steps == 0


def test_an_old_step_runs_natively_after_a_new_one_began(step, layout):
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    old, _ = replay(step, table)
    block.end(1)
    assert replay(step, table)[1]
    values, replayed = replay(step, table, number=1)
    assert not replayed


def test_an_exception_in_a_unit_ends_the_replay(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)

    def fail(unit):
        if unit == 5:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        replay(step, table, after=fail)
    requests = block.stats().requests
    outside = torch.empty(32, WIDTH)
    assert block.stats().requests == requests, "the thread is still under replay"
    block.end(1)
    assert block.stats().live_bytes > 0, "the traceback holds the tensors"
    values, _ = replay(step, table)
    assert all(map(torch.equal, step.gradients(values), expected))
    assert block.stats().occupied > 0
    block.end(2)
    del caught, outside, values
    gc.collect()
    assert block.stats().live_bytes == 0


def test_unexpected_allocations_miss_and_the_next_unit_is_in_step_again(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    extra = []

    def intrude(unit):
        if unit == 3:
            extra.append(torch.empty(12345))

    values, _ = replay(step, table, after=intrude)
    stats = block.stats()
    assert (stats.misses, stats.occupied) == (1, 0)
    assert (stats.first_miss_unit, stats.first_miss_bytes) == (3, 12345 * 4)
    assert all(map(torch.equal, step.gradients(values), expected))


def test_allocations_of_a_unit_may_come_in_another_order():
    block = arena.Arena("cpu", 4096)
    table = arena.Table(block, [[(512, 0), (1024, 512), (1024, 1536)]])
    with table.run(block.step()):
        begin(0)
        big = torch.empty(256)
        small = torch.empty(1)
        bigger = torch.empty(200)
    base = address(small)
    assert (address(big), address(bigger)) == (base + 512, base + 1536)
    assert block.live() == [(0, 4), (512, 1024), (1536, 800)]
    assert block.stats().fallbacks == 0


def test_other_threads_allocate_natively_meanwhile(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    stop, wrong = threading.Event(), []

    def work(seed):
        rng = random.Random(seed)
        kept = []
        while not stop.is_set():
            shape = (32, WIDTH) if rng.random() < 0.5 else (WIDTH, WIDTH)
            value = rng.randrange(100)
            kept.append((torch.full(shape, value), value))
            if len(kept) > 8:
                tensor, value = kept.pop(rng.randrange(8))
                if not bool((tensor == value).all()):
                    wrong.append(value)

    workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for worker in workers:
        worker.start()
    try:
        for number in range(1, 31):
            values, replayed = replay(step, table)
            block.end(number)
            assert replayed and all(map(torch.equal, step.gradients(values), expected))
    finally:
        stop.set()
        for worker in workers:
            worker.join()
    stats = block.stats()
    assert not wrong and stats.fallbacks == 0
    assert stats.requests == 30 * sum(map(len, layout.rows))


def test_the_backward_pass_may_run_on_another_thread(step, layout):
    expected = step.plain()
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    number = block.step()
    values, _ = replay(step, table, number=number, last=step.split)
    worker = threading.Thread(target=replay, args=(step, table, values, number, step.split))
    worker.start()
    worker.join()
    assert block.stats().fallbacks == 0
    assert all(map(torch.equal, step.gradients(values), expected))


def test_native_leaves_a_block_of_code_to_pytorch():
    block = arena.Arena("cpu", 1024)
    table = arena.Table(block, [[(512, 0)]])
    with table.run(block.step()):
        begin(0)
        with arena.native():
            outside = torch.empty(100)
        inside = torch.empty(100)
    assert block.live() == [(0, 400)] and block.stats().requests == 1
    del outside, inside


# ---- Results in the arena ----


def test_results_share_the_arena_and_move_out_when_they_outlive_the_step(step, layout):
    expected = step.plain()
    tight = step.layout(in_arena=True)
    gradients = sum(g.numel() * 4 for g in expected)
    assert layout.peak < tight.bytes < layout.bytes + gradients, "they take the place of activations"
    block = arena.Arena("cpu", tight.bytes)
    table = arena.Table(block, tight.rows)
    held = []
    for number in range(1, 4):
        values, replayed = replay(step, table)
        block.adopt(step.gradients(values))
        block.end(number)
        assert replayed and all(map(torch.equal, step.gradients(values), expected))
        assert all(block.owner(g) == number for g in step.gradients(values))
        held += [values["dw1"], values["dw2"].view(-1)[5:]]
        del values
    stats = block.stats()
    assert (stats.fallbacks, stats.native) == (0, 0), stats
    assert stats.high_water == tight.bytes and stats.peak_live == tight.peak
    assert stats.moved_bytes == 2 * 2 * WIDTH * WIDTH * 4
    assert [block.owner(g) for g in held] == [None, None, None, None, 3, 3]
    for one, other in zip(held[::2], held[1::2]):
        assert torch.equal(one, expected[1]) and torch.equal(other, expected[2].view(-1)[5:])


def test_a_meter_follows_results_out_of_the_arena():
    block = arena.Arena("cpu", 1024)
    table = arena.Table(block, [[(1024, 0)]])
    with arena.Meter("cpu") as meter:
        with table.run(block.step()):
            begin(0)
            result = torch.full((256,), 5.0)
            block.adopt([result, torch.empty(3), None])
        assert meter.current == 1024
        block.end(1)
        assert block.step() == 2 and block.live() == [] and meter.current == 1024
        assert bool((result == 5).all())
        del result
        assert meter.current == 0


# ---- A step of autograd, recorded as a whole ----


def test_a_recorded_step_of_a_network_is_replayed():
    torch.manual_seed(0)
    layers = [
        torch.nn.Sequential(torch.nn.Conv2d(8, 8, 3, padding=1), torch.nn.GroupNorm(2, 8), torch.nn.ReLU())
        for _ in range(4)
    ]
    parameters = [p for layer in layers for p in layer.parameters()]
    x = torch.randn(2, 8, 16, 16)
    units = len(layers) + 1

    def forward():
        y = x
        for i, layer in enumerate(layers):
            begin(i)
            y = layer(y)
        return y.square().mean()

    def backward(loss):
        begin(units - 1)
        gradients = torch.autograd.grad(loss, parameters)
        return gradients

    backward(forward())  # libraries have their workspaces now
    recorder = arena.Recorder("cpu")
    with recorder:
        loss = forward()
    with recorder:
        expected = backward(loss)
    recorder.keep([loss])
    recorder.results(expected)
    expected_loss = loss.clone()
    del loss
    layout = arena.lay_out_recording(recorder.close(), units)
    assert layout.native_bytes == 512
    block = arena.Arena("cpu", layout.bytes)
    table = arena.Table(block, layout.rows)
    for number in (1, 2):
        assert block.step() == number
        with table.run(number):
            loss = forward()
        with table.run(number):
            gradients = backward(loss)
        block.adopt(gradients)
        block.end(number)
        assert torch.equal(loss, expected_loss)
        assert all(map(torch.equal, gradients, expected))
        del loss
    stats = block.stats()
    assert stats.fallbacks == 0 and stats.moved_bytes > 0, stats
    del gradients
    assert block.stats().live_bytes == 0
    assert stats.high_water == layout.bytes and stats.peak_live == layout.peak


# ---- Arenas and tables ----


def test_arenas_grow_when_empty_and_live_as_long_as_their_tensors():
    block = arena.Arena("cpu", 1024)
    table = arena.Table(block, [[(1024, 0), (1024, 1024)]])
    with table.run(block.step()) as run:
        assert not run.replayed, "the arena is too small for the table"
    assert block.reserve(2000) and block.stats().bytes == 2048
    with table.run(block.step()) as run:
        assert run.replayed
        begin(0)
        tensor = torch.full((256,), 3.0)
    assert not block.reserve(4096) and not block.release()
    block.close()
    del block, table
    assert bool((tensor == 3).all())
    del tensor


def test_a_resized_storage_leaves_the_arena():
    block = arena.Arena("cpu", 1024)
    table = arena.Table(block, [[(1024, 0)]])
    with table.run(block.step()):
        begin(0)
        tensor = torch.arange(256.0)
    tensor.resize_(1000)
    assert torch.equal(tensor[:256], torch.arange(256.0)) and block.live() == []


def test_wrong_tables_are_refused():
    block = arena.Arena("cpu", 1024)
    for row in ([(512, 100)], [(0, 0)], [(512, -2)]):
        with pytest.raises(InvalidError, match="unit 1"):
            arena.Table(block, [[], row])
    table = arena.Table(block, [[(512, 0)]])
    with table.run(block.step()):
        with pytest.raises(IndexError, match="unit 1 of 1"):
            begin(1)
    begin(1)  # without a replay it does nothing


def test_a_layout_names_each_storage_once():
    _, trace = arena.record(lambda: torch.empty(100))
    run = arena.UnitRun(trace, {0: "a"})
    with pytest.raises(InvalidError, match="run 1 makes 'a' again"):
        arena.lay_out([run, run])
    again = arena.lay_out([run._replace(frees=["a"]), run])
    assert again.rows == [[(512, 0)], [(512, -1)]] and again.native_bytes == 512


# ---- Building ----


def test_what_is_missing_is_named(monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(UnsupportedError, match="CXX is no-such-compiler.*install g"):
        arena_build._compiler()
    monkeypatch.delenv("CXX")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UnsupportedError, match="needs a C.. compiler, and there is none here"):
        arena_build._compiler()
    monkeypatch.setitem(arena_build.sysconfig.get_paths.__globals__, "get_paths", None)
    monkeypatch.setattr(arena_build.sysconfig, "get_paths", lambda: {"include": "/nowhere"})
    with pytest.raises(UnsupportedError, match="Python.h in /nowhere; install"):
        arena_build._flags()
    with pytest.raises(UnsupportedError, match="CPUs and CUDA devices, not on meta"):
        arena.Meter("meta")


def test_a_compiler_error_is_one_line(tmp_path):
    with pytest.raises(UnsupportedError) as caught:
        arena_build._compile(str(tmp_path), ["g++"], ["-DNEAP_TORCH=211", "-nostdinc"])
    message = str(caught.value)
    assert "\n" not in message and "g++" in message and "error" in message


def test_a_damaged_build_is_made_again(monkeypatch, tmp_path):
    built = []
    monkeypatch.setenv("NEAP_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(arena_build, "_build_and_load", lambda *args: built.append(args))
    arena_build.extension.__wrapped__()
    assert len(built) == 1
    (tmp_path / built[0][1]).write_bytes(b"not a library")
    arena_build.extension.__wrapped__()
    assert len(built) == 2
