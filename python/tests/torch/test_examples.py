"""The examples train, within their budgets, on small sizes."""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys

import pytest

import neap

EXAMPLES = pathlib.Path(__file__).resolve().parents[3] / "examples"
LLAMA = json.dumps({"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 8,
                    "vocab_size": 97})
CASES = {
    "torch_train.py": {"BUDGET": "60%"},
    "lightning_resnet.py": {"BUDGET": "29MiB", "MODEL": "squeezenet1_1", "BATCH": "16", "SIDE": "64"},
    "hf_trainer.py": {"BUDGET": "75%", "BATCH": "8", "LENGTH": "64", "SIZES": LLAMA},
}
NEEDS = {"lightning_resnet.py": ("lightning", "torchvision"), "hf_trainer.py": ("transformers", "accelerate")}


@pytest.mark.parametrize("name", CASES)
def test_example_trains_in_its_budget(name: str, tmp_path: pathlib.Path) -> None:
    for module in NEEDS.get(name, ()):
        pytest.importorskip(module)
    package = pathlib.Path(neap.__file__).resolve().parents[1]
    environment = os.environ | CASES[name] | {"KERNELS": "eager", "STEPS": "2", "NEAP_CACHE_DIR": str(tmp_path),
                                              "PYTHONPATH": str(package)}  # fmt: skip
    run = subprocess.run([sys.executable, EXAMPLES / name], env=environment, cwd=tmp_path, capture_output=True,
                         text=True, timeout=600, check=False)
    assert run.returncode == 0, run.stderr[-2000:]
    last = run.stdout.strip().splitlines()[-1]
    sizes = re.search(r"budget (.+?), peak (.+?) \(without a plan (.+?)\), time \+", last)
    assert sizes, last
    budget, peak, natural = map(neap.parse_bytes, sizes.groups())
    assert peak <= budget < natural


@pytest.mark.parametrize("name", CASES)
def test_example_is_short(name: str) -> None:
    assert len((EXAMPLES / name).read_text(encoding="utf-8").splitlines()) < 30
