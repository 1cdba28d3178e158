"""The package and the command neap: the same figures, the same files."""

import json

import neap
import pytest

FIGURES = {
    "budget_bytes": "budget", "peak_bytes": "peak", "arena_bytes": "arena", "time": "time",
    "base_time": "base_time", "overhead": "overhead", "bound_time": "bound_time", "gap": "gap",
    "bound_scope": "bound_scope", "status": "outcome", "recomputed_ops": "recomputed_ops",
    "offloaded_bytes": "offloaded_bytes", "method": "method",
}  # fmt: skip


def plan_by_command(command, *arguments):
    made = command("plan", *arguments, "--json")
    assert made.returncode == 0, made.stderr
    return json.loads(made.stdout)


@pytest.mark.parametrize("method, budget", [("sqrt", "80%"), ("greedy", "700MB"), ("neap", "80%")])
def test_same_figures(command, resnet, method, budget):
    options = ("--gap", "1%") if method == "neap" else ()
    said = plan_by_command(command, resnet, "--budget", budget, "--method", method, *options)
    plan = neap.plan(neap.Graph.read(resnet), budget, method=method, gap=0.01 if options else None)
    for key, attribute in FIGURES.items():
        assert getattr(plan, attribute) == said[key], key
    assert plan.graph.natural_peak == said["natural_peak_bytes"]


def test_same_figures_with_a_link(command, resnet):
    arguments = ("--link", "12.2GB/s", "--duplex", "--method", "offload-greedy", "--budget", "70%")
    said = plan_by_command(command, resnet, *arguments)
    link = neap.Link(12.2e9, 12.2e9, duplex=True)
    plan = neap.plan(neap.Graph.read(resnet), "70%", link=link, method="offload-greedy")
    assert plan.offloaded_bytes == said["offloaded_bytes"] > 0
    assert plan.time == said["time"] and plan.peak == said["peak_bytes"]


def test_alignment_and_percent(command, resnet):
    said = plan_by_command(
        command, resnet, "--budget", "80%", "--method", "sqrt", "--alignment", "4096"
    )
    plan = neap.plan(neap.Graph.read(resnet), "80%", method="sqrt", alignment=4096)
    assert plan.budget == said["budget_bytes"] and plan.arena == said["arena_bytes"]


def test_the_command_reads_our_plan(command, resnet, tmp_path):
    plan = neap.plan(neap.Graph.read(resnet), "60%", gap=0.05)
    plan.write(tmp_path / "plan.json")
    judged = command("check", resnet, tmp_path / "plan.json", "--json")
    assert judged.returncode == 0, judged.stdout + judged.stderr
    said = json.loads(judged.stdout)
    assert said["peak_bytes"] == plan.peak and said["time"] == plan.time


def test_we_read_the_plan_of_the_command(command, resnet, tmp_path):
    path = tmp_path / "plan.json"
    said = plan_by_command(command, resnet, "--budget", "70%", "--method", "greedy", "-o", path)
    graph = neap.Graph.read(resnet)
    plan = neap.Plan.read(path, graph)
    assert plan.peak == said["peak_bytes"] and plan.time == said["time"] and plan.check()
    assert plan.to_json() == path.read_text()
    assert plan.steps == neap.plan(graph, "70%", method="greedy").steps


def test_the_command_plans_our_graph(command, chain, tmp_path):
    chain.write(tmp_path / "chain.json")
    said = plan_by_command(command, tmp_path / "chain.json", "--budget", "50%")
    assert said["time"] == neap.plan(chain, "50%").time


def test_same_refusal(command, resnet, short_search):
    refused = command("plan", resnet, "--budget", "10MiB")
    with pytest.raises(neap.InfeasibleError) as caught:
        neap.plan(neap.Graph.read(resnet), "10MiB", time_limit=1)
    assert refused.returncode == 3 and str(caught.value).split(";")[0] in refused.stderr
    assert caught.value.least_budget >= caught.value.floor


def test_same_chart(command, resnet):
    shown = command("plan", resnet, "--budget", "80%", "--method", "greedy", "--chart").stdout
    plan = neap.plan(neap.Graph.read(resnet), "80%", method="greedy")
    assert plan.chart(width=70).strip() in shown


def test_version(command):
    assert neap.__version__ in command("--version").stdout
