"""neap.torch.capture, explain and suggest_batch on small models."""

from __future__ import annotations

import dataclasses
import inspect
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import pytest
import torch

import neap
import neap.torch
from neap.torch.backend import Settings
from neap.torch.explain import knee

ROOT = pathlib.Path(__file__).resolve().parents[3]


class Block(torch.nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.norm = torch.nn.BatchNorm1d(width)
        self.dropout = torch.nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.dropout(torch.nn.functional.gelu(self.norm(self.linear(x))))


def network(width: int = 32, depth: int = 4) -> torch.nn.Module:
    return torch.nn.Sequential(*[Block(width) for _ in range(depth)])


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path_factory.getbasetemp() / "neap-cache"
    monkeypatch.setenv("NEAP_CACHE_DIR", str(folder))


def command() -> str:
    places = [os.environ.get("NEAP_COMMAND"), ROOT / "build/release/neap", ROOT / "build/neap"]
    if os.environ.get("NEAP_LIBRARY"):
        places.append(pathlib.Path(os.environ["NEAP_LIBRARY"]).parent / "neap")
    for place in places:
        if place and os.access(place, os.X_OK):
            return str(place)
    pytest.skip("the command neap is not built")


# ---- capture ----


def test_capture_writes_a_file_that_the_command_plans(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "captured.json"
    graph = neap.torch.capture(network(), torch.randn(512, 32), loss=torch.sum, path=path)
    assert graph.to_json() == neap.Graph.read(path).to_json()
    run = subprocess.run([command(), "plan", path, "--budget", "70%"], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert "peak" in run.stdout


def test_capture_leaves_the_model_and_random_numbers_alone() -> None:
    model, inputs = network(), torch.randn(64, 32)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    neap.torch.capture(model, inputs)
    assert torch.equal(state, torch.get_rng_state())
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_capture_is_what_the_backend_plans() -> None:
    model, inputs = network(), torch.randn(256, 32)
    graph = neap.torch.capture(model, inputs)
    backend = neap.torch.backend(kernels="eager")
    torch.compile(model, backend=backend, dynamic=False)(inputs).sum().backward()
    planned = backend.reports[0].plan.graph
    assert [op.name for op in graph.ops] == [op.name for op in planned.ops]
    assert [value.bytes for value in graph.values] == [value.bytes for value in planned.values]


def test_capture_takes_keywords_functions_and_compiled_models() -> None:
    model, inputs = network(), torch.randn(64, 32)
    plain = neap.torch.capture(model, inputs, measure=False)
    named = neap.torch.capture(lambda *, x: model(x), x=inputs, measure=False)
    compiled = neap.torch.capture(torch.compile(model, backend="eager"), inputs, measure=False)
    assert plain.op_count == named.op_count == compiled.op_count
    assert neap.torch.capture(model, inputs, loss=torch.sum, measure=False).op_count > plain.op_count


def test_capture_many_shapes_does_not_hit_a_limit() -> None:
    model = network(depth=1)
    sizes = [neap.torch.capture(model, torch.randn(n, 32), measure=False).natural_peak for n in range(4, 14)]
    assert len(sizes) == 10 and sizes[-1] > sizes[0]


def test_capture_on_the_meta_device_needs_no_memory() -> None:
    with torch.device("meta"):
        model, inputs = network(width=2048), torch.empty(1 << 20, 2048)
    graph = neap.torch.capture(model, inputs)
    assert graph.natural_peak > 8 << 30
    assert 0 < graph.base_time < 10


@pytest.mark.parametrize("shape", [(8, 10), (8, 10, 4, 4)])
def test_capture_of_a_loss_on_the_meta_device(shape) -> None:
    with torch.device("meta"):
        model = torch.nn.Conv2d(10, 10, 1) if len(shape) == 4 else torch.nn.Linear(10, 10)
        images, labels = torch.empty(shape), torch.zeros((shape[0], *shape[2:]), dtype=torch.long)
    graph = neap.torch.capture(lambda x, y: torch.nn.functional.cross_entropy(model(x), y), images, labels)
    assert any("nll_loss" in op.name and "backward" in op.name for op in graph.ops), "the gradient of the loss"


def test_capture_of_fake_tensors() -> None:
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        model, inputs = network(width=1024), torch.empty(1 << 18, 1024)
    assert neap.torch.capture(model, inputs, measure=False).natural_peak > 4 << 30


def test_capture_counts_the_state_that_an_optimizer_will_take() -> None:
    model, inputs = network(width=256), torch.randn(8, 256)
    bare = neap.torch.capture(model, inputs, measure=False).base_bytes
    optimizer = torch.optim.AdamW(model.parameters())
    size = sum(p.numel() * p.element_size() for p in model.parameters())
    grown = neap.torch.capture(model, inputs, measure=False).base_bytes
    assert 2 * size <= grown - bare <= 2 * size + 2 * 64 * len(optimizer.param_groups[0]["params"])


def test_capture_names_the_line_of_a_graph_break() -> None:
    def broken(x: torch.Tensor) -> torch.Tensor:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(neap.UnsupportedError, match=r"test_explain\.py:\d+") as error:
        neap.torch.capture(broken, torch.randn(4, requires_grad=True))
    assert "\n" not in str(error.value)


def test_capture_refuses_what_is_not_training() -> None:
    with pytest.raises(neap.InvalidError, match="requires a gradient"):
        neap.torch.capture(network().requires_grad_(False), torch.randn(8, 32))
    with pytest.raises(neap.InvalidError, match="kernels"):
        neap.torch.capture(network(), torch.randn(8, 32), kernels="none")
    with pytest.raises(neap.InvalidError, match="a module or a function"):
        neap.torch.capture(3, torch.randn(8, 32))


# ---- explain ----


@pytest.fixture(scope="module")
def explained() -> neap.torch.Explanation:
    model = network(width=64)
    optimizer = torch.optim.SGD(model.parameters(), momentum=0.9)
    found = neap.torch.explain(model, torch.randn(1024, 64), loss=torch.sum, budget="75%", kernels="eager",
                               measure=False, points=5, time_limit=4)
    del optimizer
    return found


def test_parts_add_up_to_the_peak(explained: neap.torch.Explanation) -> None:
    assert explained.peak.bytes == explained.graph.natural_peak
    for peak in (explained.peak, explained.plan_peak):
        assert peak is not None and sum(peak.parts.values()) == peak.bytes
    parts = explained.peak.parts
    assert max(parts, key=parts.__getitem__) == "activations"
    assert parts["optimizer state"] == parts["parameters"]


def test_holders_name_modules_and_lines(explained: neap.torch.Explanation) -> None:
    holders = explained.peak.holders
    assert 1 <= len(holders) <= 5
    assert all(re.fullmatch(r"[0-3](\.\w+)?", holder.name) for holder in holders)
    assert all(holder.line.startswith("test_explain.py:") for holder in holders)
    assert sum(holder.bytes for holder in holders) <= explained.peak.bytes


def test_the_curve_falls(explained: neap.torch.Explanation) -> None:
    curve = explained.curve
    assert curve[0].budget == explained.least_budget < curve[-1].budget
    assert explained.least_budget >= explained.graph.floor.bytes
    assert all(point.peak <= point.budget for point in curve)
    assert all(a.time >= b.time for a, b in zip(curve, curve[1:]))
    assert explained.suggestion in curve


def test_the_plan_says_what_it_recomputes(explained: neap.torch.Explanation) -> None:
    assert explained.plan is not None and explained.plan.peak <= explained.budget
    assert sum(module.runs for module in explained.recomputed) == explained.plan.recomputed_ops > 0
    extra = sum(module.seconds for module in explained.recomputed)
    assert extra == pytest.approx(explained.plan.time - explained.time, rel=1e-3)


def test_text_fits_a_terminal(explained: neap.torch.Explanation) -> None:
    text = str(explained)
    assert all(len(line) <= 80 for line in text.splitlines())
    for word in ("What makes the peak", "What a budget costs", "Least budget that works", "Suggested: budget="):
        assert word in text
    budget = re.search(r'Suggested: budget="(\w+)"', text)
    assert budget and neap.parse_bytes(budget[1]) >= explained.suggestion.budget


def test_figure_is_valid_svg(explained: neap.torch.Explanation, tmp_path: pathlib.Path) -> None:
    explained.write_svg(str(tmp_path / "figure.svg"))
    tree = xml.etree.ElementTree.parse(tmp_path / "figure.svg").getroot()
    circles = [e for e in tree.iter("{http://www.w3.org/2000/svg}circle")]
    assert len(circles) == len(explained.curve) + 1
    page = explained._repr_html_()
    assert "<svg" in page and "<style>" not in page and "currentColor" in page


def test_the_knee_is_below_the_line() -> None:
    class At:
        def __init__(self, budget: int, time: float) -> None:
            self.budget, self.time, self.overhead = budget, time, time - 1

    curve = [At(1, 9.0), At(2, 1.3), At(4, 1.05), At(8, 1.01), At(10, 1.0)]
    assert knee(curve).budget == 4
    assert knee(curve[:1]).budget == 1
    assert knee([At(5, 1.0), At(10, 1.0)]).budget == 5


def test_explain_refuses_a_budget_below_the_floor() -> None:
    with pytest.raises(neap.InfeasibleError) as error:
        neap.torch.explain(network(), torch.randn(64, 32), budget="1KiB", measure=False, points=2, time_limit=1)
    assert error.value.least_budget


def test_explain_of_fused_kernels() -> None:
    found = neap.torch.explain(network(width=64), torch.randn(1024, 64), loss=torch.sum, measure=False, points=3,
                               time_limit=3)
    assert found.kernels == "inductor"
    assert sum(found.peak.parts.values()) == found.peak.bytes
    assert any("+" in op.type for op in found.graph.ops), "an op of the graph is what is fused"
    assert found.least_budget < found.peak.bytes


def test_explain_on_the_meta_device() -> None:
    with torch.device("meta"):
        model, inputs = network(width=2048, depth=2), torch.empty(1 << 16, 2048)
    found = neap.torch.explain(model, inputs, points=2, time_limit=2)
    assert found.kernels == "eager" and found.peak.bytes > 1 << 30
    with pytest.raises(neap.UnsupportedError, match="meta"):
        neap.torch.explain(model, inputs, kernels="inductor")


# ---- suggest_batch ----


def test_suggest_batch_is_the_largest_that_fits() -> None:
    model = network(width=64, depth=2)

    def inputs(batch: int) -> torch.Tensor:
        return torch.randn(batch, 64)

    found = neap.torch.suggest_batch(model, inputs, "512KiB", start=64, loss=torch.sum, kernels="eager",
                                     measure=False, time_limit=0.5)
    assert found.plan.peak <= 512 << 10
    assert found.next_batch == found.batch + 1 and found.reason
    assert found.unplanned_batch is not None and found.batch > found.unplanned_batch
    assert neap.torch.capture(model, inputs(found.batch), loss=torch.sum, measure=False).natural_peak > 512 << 10
    assert str(found).startswith(f"batch {found.batch} fits 512 KiB")


def test_suggest_batch_respects_its_limits() -> None:
    model = network(width=64, depth=2)

    def inputs(batch: int) -> dict[str, torch.Tensor]:
        return {"input": torch.randn(batch, 64)}

    options = dict(start=2, multiple=16, loss=torch.sum, kernels="eager", measure=False, time_limit=0.5)
    fast = neap.torch.suggest_batch(model, inputs, "512KiB", slower=0.0, **options)
    assert fast.batch % 16 == 0 and fast.plan.overhead == 0
    capped = neap.torch.suggest_batch(model, inputs, "512KiB", most=100, **options)
    assert (capped.batch, capped.next_batch) == (96, None)
    with pytest.raises(neap.InfeasibleError, match="batch 16 does not fit"):
        neap.torch.suggest_batch(model, inputs, "64KiB", **options)
    with pytest.raises(neap.InvalidError, match="every batch has another peak"):
        neap.torch.suggest_batch(model, inputs, "50%", **options)


# ---- on a GPU ----


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("kernels", ["eager", "inductor"])
def test_a_suggested_budget_holds_on_cuda(kernels: str) -> None:
    model = network(width=2048, depth=12).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    inputs = torch.randn(16384, 2048, device="cuda")
    before = torch.cuda.memory_allocated()
    found = neap.torch.explain(model, inputs, loss=torch.sum, kernels=kernels, points=6)
    assert torch.cuda.memory_allocated() <= before + (64 << 20), "explaining leaves only libraries' workspaces behind"
    print(found)
    assert found.suggestion.budget < 0.9 * found.peak.bytes

    @torch.compile(backend=neap.torch.backend(found.suggestion.budget, kernels=kernels))
    def step(x: torch.Tensor) -> torch.Tensor:
        return model(x).sum()

    for number in range(5):
        if number == 2:  # the first steps may plan again
            torch.cuda.reset_peak_memory_stats()
        step(inputs).backward()
        optimizer.step()
        optimizer.zero_grad()
    assert torch.cuda.max_memory_allocated() <= found.suggestion.budget


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_suggest_batch_on_cuda() -> None:
    model = network(width=1024, depth=6).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    found = neap.torch.suggest_batch(model, lambda n: torch.randn(n, 1024, device="cuda"), "2GiB", loss=torch.sum,
                                     start=1024, multiple=1024, slower=0.1, kernels="eager")
    print(found)
    assert found.plan.peak <= 2 << 30 and found.plan.overhead <= 0.1
    assert found.unplanned_batch is not None and found.batch > found.unplanned_batch
    del optimizer


# ---- the backend by name ----


def test_backend_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    from neap.torch import registered

    calls = []
    monkeypatch.setattr(registered, "Backend", lambda settings: lambda module, inputs: calls.append(settings) or module)
    monkeypatch.setattr(registered, "_made", {})
    monkeypatch.setenv("NEAP_BUDGET", "1GiB")
    registered.neap(None, [])
    registered.neap(None, [], options={"budget": "2GiB", "kernels": "eager"})
    assert [(s.budget, s.kernels) for s in calls] == [("1GiB", "inductor"), ("2GiB", "eager")]
    with pytest.raises(neap.InvalidError, match="nonsense"):
        registered.neap(None, [], options={"nonsense": 1})
    with pytest.raises(neap.InvalidError, match="mode"):
        registered.neap(None, [], mode="max-autotune")


# ---- help ----


def test_every_argument_is_described() -> None:
    arguments = inspect.signature(neap.torch.backend).parameters
    settings = {field.name: field.default for field in dataclasses.fields(Settings)}
    assert {name: argument.default for name, argument in arguments.items()} == settings
    page = (ROOT / "docs/pytorch.md").read_text(encoding="utf-8")
    assert all(re.search(rf"[`, ]{name}=", page) for name in arguments)
    for function in (neap.torch.backend, neap.torch.capture, neap.torch.explain, neap.torch.suggest_batch):
        text = inspect.getdoc(function) or ""
        for name in set(inspect.signature(function).parameters) - {"inputs", "kwargs", "model"}:
            assert re.search(rf"^(\w+, )*{name}\b", text, re.M), f"{function.__name__}: {name}"
