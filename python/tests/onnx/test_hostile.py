"""Damaged and hostile files: a part of bench/onnx_hostile."""

from __future__ import annotations

import onnx_support
import pytest

import onnx_mutations  # noqa: E402
import onnx_styles  # noqa: E402

bench = onnx_support.bench("onnx_hostile")


def cases(folder: str) -> list:
    model = onnx_styles.write("sklearn_mlp", folder)
    return list(onnx_mutations.all_cases([model], __file__, flips=12))


def test_hostile_files_are_refused_in_one_line(programs, tmp_path) -> None:
    found = cases(str(tmp_path))
    wrong = [(name, why) for name, write in found[::2] for _, why in [bench.try_case(write, False)] if why]
    assert not wrong


@pytest.mark.parametrize("place", ["external ..", "external absolute", "external symlink out", "external a device"])
def test_data_outside_of_the_folder_is_refused(programs, tmp_path, place) -> None:
    write = dict(onnx_mutations.external(__file__))[place]
    status, why = bench.try_case(write, False)
    assert (status, why) == (2, None)


def test_a_crash_is_noticed() -> None:
    assert bench.problem(-11, b"", "x.onnx")
    assert bench.problem(None, b"", "x.onnx")
    assert bench.problem(2, b"one\ntwo\n", "x.onnx")
    assert bench.problem(2, b"", "x.onnx")
    assert bench.problem(2, b"neap: x.onnx: a \x1b[31m\n", "x.onnx")
    assert bench.problem(0, b"", "x.onnx") is None
