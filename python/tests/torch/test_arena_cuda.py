"""The hook in front of PyTorch's CUDA allocator, on a device that fake_cuda.c makes up.

PyTorch's caching allocator is the real one. The checks run in a process of their own, with the fake
runtime preloaded.
"""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import threading
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from neap.errors import UnsupportedError  # noqa: E402
from neap.torch import arena, arena_build, arena_step, trim  # noqa: E402
from neap.torch.arena_forecast import Forecast  # noqa: E402
from neap.torch.arena_layout import RESULT, Allocation  # noqa: E402
from neap.torch.arena_room import Room  # noqa: E402

MIB = 1 << 20
FAKE = Path(__file__).with_name("fake_cuda.c")


def test_on_a_fake_device(tmp_path):
    try:
        module = arena_build.extension()
    except UnsupportedError as error:
        pytest.skip(str(error))
    if not module.has_cuda():
        pytest.skip(arena_build.explain_no_cuda())
    compiler = arena_build._compiler()
    for name, flags in (("libcuda.so.1", ["-DDRIVER"]), ("fake.so", [])):
        command = [*compiler, "-x", "c", "-w", "-shared", "-fPIC", *flags, str(FAKE), "-o", str(tmp_path / name)]
        headers = [word for folder in arena_build._cuda_headers() for word in ("-isystem", folder)]
        subprocess.run([*command, *headers], check=True)
    settings = {
        "LD_PRELOAD": str(tmp_path / "fake.so"),
        "LD_LIBRARY_PATH": str(tmp_path),
        "CUDA_VISIBLE_DEVICES": "0",
        "PYTORCH_CUDA_ALLOC_CONF": "",
    }
    done = subprocess.run(
        [sys.executable, __file__], env={**os.environ, **settings}, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "all checks passed"


# ---- In the other process ----


def empty(size: int) -> torch.Tensor:
    return torch.empty(size, dtype=torch.uint8, device="cuda")


def table_of(*rows: list[tuple[int, int]], size: int) -> tuple[arena.Arena, arena.Table]:
    block = arena.Arena("cuda", size)
    return block, arena.Table(block, rows)


def counted(name: str) -> int:
    return ctypes.c_int.in_dll(ctypes.CDLL(os.environ["LD_PRELOAD"]), name).value


def check_meter_and_streams(begin) -> None:
    early = empty(1000)
    side = torch.cuda.Stream()
    with arena.Meter("cuda") as meter:
        base = torch.cuda.memory_allocated()
        big, small = empty(4 * MIB), empty(10)
        assert meter.current == torch.cuda.memory_allocated() - base == 4 * MIB + 512
        del big
        assert (meter.current, meter.peak) == (512, 4 * MIB + 512)
        small.record_stream(side)  # PyTorch's allocator must see it, although the meter follows it
        before = counted("fake_records")
        del small
        assert counted("fake_records") == before + 1
        raw = torch.cuda.caching_allocator_alloc(4 * MIB, 0)
        assert meter.current == 4 * MIB
        torch.cuda.caching_allocator_delete(raw)
        assert meter.current == 0
    early.record_stream(side)


def check_recorder(begin) -> None:
    def unit():
        temporary, result = empty(8 * MIB), empty(4 * MIB)
        with torch.cuda.stream(side):
            empty(MIB)  # another stream
        return [result, empty(3)]

    side = torch.cuda.Stream()
    result, trace = arena.record(unit, "cuda")
    assert [one.output for one in trace.allocations] == [None, 0, 1]
    assert trace.workspace == 8 * MIB and len(result) == 2


def check_replay(begin) -> None:
    block, table = table_of([(4 * MIB, 0), (4 * MIB, 4 * MIB)], [(4 * MIB, 0)], size=8 * MIB)
    side = torch.cuda.Stream()
    allocated = torch.cuda.memory_allocated()
    with table.run(block.step()) as run:
        assert run.replayed
        begin(0)
        one, two = empty(4 * MIB), empty(4 * MIB)
        assert two.data_ptr() == one.data_ptr() + 4 * MIB
        assert torch.cuda.memory_allocated() == allocated, "the arena is one allocation"
        with torch.cuda.stream(side):
            elsewhere = empty(4 * MIB)
        assert block.owner(elsewhere) is None and block.owner(one) == 1
        one.record_stream(side)
        waits = counted("fake_waits")
        del one
        assert counted("fake_waits") == waits + 1, "the stream waits before the memory is used again"
        begin(1)
        one = empty(4 * MIB)
        extra = empty(4 * MIB)
    stats = block.stats()
    assert (stats.placed, stats.misses, stats.occupied) == (3, 1, 0), stats
    del one, two, extra
    waits = counted("fake_waits")
    with torch.cuda.stream(side), table.run(block.step()) as run:
        assert run.replayed and counted("fake_waits") == waits + 1, "a step on another stream"
        begin(1)
        raw = torch.cuda.caching_allocator_alloc(4 * MIB, 0)
        assert len(block.live()) == 1
        torch.cuda.caching_allocator_delete(raw)
        assert not block.live()
    shared = []

    def other() -> None:
        shared.append(empty(4 * MIB))

    with table.run(block.step()):
        begin(0)
        worker = threading.Thread(target=other)
        worker.start()
        worker.join()
    assert block.owner(shared[0]) is None and not block.live()


def check_results_move_out(begin) -> None:
    block, table = table_of([(4 * MIB, 0)], size=4 * MIB)
    with table.run(block.step()):
        begin(0)
        result = empty(4 * MIB)
    result.untyped_storage().fill_(0)
    ctypes.memset(result.data_ptr(), 77, 4 * MIB)
    block.adopt([result])
    block.end(1)
    address = result.data_ptr()
    assert block.step() == 2 and result.data_ptr() != address and block.owner(result) is None
    assert ctypes.string_at(result.data_ptr(), 4 * MIB) == b"M" * (4 * MIB)


def check_the_rest_of_pytorch(begin) -> None:
    block, table = table_of([(4 * MIB, 0), (4 * MIB, 4 * MIB)], size=8 * MIB)
    with table.run(block.step()):
        begin(0)
        one, two = empty(4 * MIB), empty(4 * MIB)
    handle = two.untyped_storage()._share_cuda_()
    assert handle[3] >= 4 * MIB, "the offset in the block that is shared"
    pool = torch.cuda.MemPool()
    with torch.cuda.use_mem_pool(pool):
        with table.run(1) as run:
            assert not run.replayed
    with table.run(1) as run, torch.cuda.use_mem_pool(pool):
        begin(0)
        del one
        assert run.replayed and block.owner(empty(4 * MIB)) is None
    torch.cuda.memory_summary()
    torch.cuda.memory_snapshot()
    torch.cuda.memory._record_memory_history(max_entries=100)
    empty(4)
    torch.cuda.memory._snapshot()
    torch.cuda.memory._record_memory_history(enabled=None)
    torch.cuda.empty_cache()
    assert torch.cuda.memory.get_allocator_backend() == "native"


def check_arenas_are_given_back(begin) -> None:
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated()
    block, table = table_of([(64 * MIB, 0)], size=64 * MIB)
    assert torch.cuda.memory_allocated() == before + 64 * MIB
    with table.run(block.step()):
        begin(0)
        tensor = empty(64 * MIB)
    block.close()
    del block, table
    assert torch.cuda.memory_allocated() == before + 64 * MIB
    del tensor
    assert torch.cuda.memory_allocated() == before, "the last tensor frees the arena"
    try:
        arena.Arena("cuda", 1 << 44)
    except MemoryError as error:
        assert "no arena of 16.0 TiB on cuda:0" in str(error)
    else:
        raise AssertionError("an arena of 16 TiB")


def check_reserved_bytes(begin) -> None:
    """A step whose sizes fragment PyTorch's allocator, which reserves 1.17 times its live bytes."""
    rng = random.Random(5)
    layers = 60
    sizes = [MIB * rng.randrange(3, 40) + 512 * rng.randrange(100) for _ in range(layers)]
    scratch = [MIB * rng.randrange(2, 60) for _ in range(layers)]

    def step(mark) -> list:
        saved, gradients = [], []
        for i in range(layers):
            mark(i)
            temporary = empty(scratch[i])
            saved.append(empty(sizes[i]) if i % 3 else None)
            del temporary
        for i in reversed(range(layers)):
            mark(2 * layers - 1 - i)
            again = empty(sizes[i]) if saved[i] is None else saved[i]
            temporary = empty(scratch[i] // 2)
            gradients.append(empty(sizes[i] // 8))
            saved[i] = again = temporary = None
        return gradients

    def peak_of(run) -> tuple[int, int]:
        for _ in range(3):
            torch.cuda.reset_peak_memory_stats()
            run()
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()

    torch.cuda.empty_cache()
    live, reserved = peak_of(lambda: step(lambda unit: None))
    recorder = arena.Recorder("cuda")
    with recorder:
        recorder.results(step(begin))
    layout = arena.lay_out_recording(recorder.close(), 2 * layers)
    torch.cuda.empty_cache()
    block = arena.Arena("cuda", layout.bytes)
    table = arena.Table(block, layout.rows)

    def strict() -> None:
        number = block.step()
        with table.run(number):
            block.adopt(step(begin))
        block.end(number)

    _, strictly = peak_of(strict)
    stats = block.stats()
    print(f"live {live / MIB:.0f}, reserved {reserved / MIB:.0f}, strictly {strictly / MIB:.0f} MiB")
    assert stats.fallbacks == 0 and reserved > 1.1 * live and strictly < 1.02 * live, (live, reserved, strictly)


def check_free_blocks_are_given_back_between_ops(begin) -> None:
    torch.cuda.empty_cache()
    device = torch.device("cuda", 0)
    before = torch.cuda.memory_reserved()

    def ops() -> int:
        torch.cuda.reset_peak_memory_stats()
        for size in (100, 150, 200, 250, 300, 350):
            trim.trim(device)
            empty(size * MIB)
        return torch.cuda.max_memory_reserved() - before

    assert ops() > 1000 * MIB
    torch.cuda.empty_cache()
    with trim.trimmed(device), trim.trimmed(device):
        assert 350 * MIB <= ops() <= 400 * MIB
    torch.cuda.empty_cache()
    assert ops() > 1000 * MIB
    torch.cuda.empty_cache()


def check_the_first_step_is_within_the_budget(begin) -> None:
    """Reserved bytes of a session's steps, with a forecast that does not know half of the temporaries."""
    rng = random.Random(6)
    layers = 40
    sizes = [MIB * rng.randrange(3, 40) + 512 * rng.randrange(100) for _ in range(layers)]
    scratch = [MIB * rng.randrange(2, 30) for _ in range(layers)]

    def forward(args: list) -> tuple:
        args.clear()
        saved = []
        for i in range(layers):
            begin(i)
            temporary = empty(scratch[i])
            saved.append(empty(sizes[i]))
            del temporary
        return (None, *saved)

    def backward(args: list) -> tuple:
        saved, gradients = list(args), []
        args.clear()
        for i in reversed(range(layers)):
            begin(layers - 1 - i)
            temporary = empty(scratch[i] // 2)
            gradients.append(empty(sizes[i] // 8))
            saved[i] = temporary = None
        return tuple(gradients)

    def step(forward, backward) -> tuple[int, int]:
        torch.cuda.reset_peak_memory_stats()
        saved = list(forward([])[1:])
        backward(saved)
        return torch.cuda.max_memory_allocated(), torch.cuda.max_memory_reserved()

    held = empty(64 * MIB)  # parameters
    torch.cuda.empty_cache()
    live, reserved = step(forward, backward)
    torch.cuda.empty_cache()
    resident = torch.cuda.memory_reserved()
    recorder = arena.Recorder("cuda")
    with recorder:
        saved = list(forward([])[1:])
    first = recorder.close()
    del saved
    session = arena_step.Session(arena.Arena("cuda"))
    passes = session.forward(forward, 1, layers), session.backward(backward, layers)
    end = 10 * layers
    expected = [(unit, one._replace(died=one.died if one.died is not None else end - unit)) for unit, one in first]
    expected = [pair for number, pair in enumerate(expected) if number % 4]  # every second temporary is missing
    expected += [(2 * layers - 1 - i, Allocation(sizes[i] // 8, end - i, None, 0, RESULT)) for i in range(layers)]
    budget = resident + int((live - resident) * 1.07)
    session.expect(*passes, Forecast(expected, layers, layers, 0), Room(budget, resident=resident))
    torch.cuda.empty_cache()
    for number in range(4):
        strictly = step(*passes)[1]
        stats = session.stats()
        print(f"step {number + 1}: {strictly / MIB:.0f} of {budget / MIB:.0f} MiB, natively {reserved / MIB:.0f}")
        assert stats.steps == number + 1 and stats.fallbacks == 0, stats
        assert strictly <= budget < reserved, (strictly, budget, reserved)
    assert (stats.spilled > 0) and session.layouts
    del held


def main() -> None:
    assert torch.cuda.is_available() and torch.cuda.get_device_name() == "fake"
    begin = arena.begin_function()
    for name, check in list(globals().items()):
        if name.startswith("check_"):
            check(begin)
            print(name, "ok")
    print("all checks passed")


if __name__ == "__main__":
    main()
