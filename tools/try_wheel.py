"""Plans with the installed package alone; run by tools/wheel.sh."""

import neap

STAGES = 24
MIB = 1 << 20


def chain():
    """A training step of a chain: each backward op reads the activation of its forward op."""
    values = [{"name": "x", "bytes": MIB, "kind": "input"}]
    ops = []
    for i in range(STAGES):
        values.append({"name": f"a{i}", "bytes": MIB})
        ops.append({"name": f"f{i}", "inputs": [i], "outputs": [i + 1], "time": 1})
    for i in reversed(range(STAGES)):
        values.append({"name": f"d{i}", "bytes": MIB, "kind": "gradient"})
        last = len(values) - 1
        read = [i, i + 1] + ([last - 1] if i < STAGES - 1 else [])
        ops.append(
            {"name": f"b{i}", "pass": "backward", "inputs": read, "outputs": [last], "time": 2}
        )
    fields = {"neap": "graph", "version": 1, "name": "chain", "values": values, "ops": ops}
    return neap.Graph.from_dict({**fields, "outputs": [len(values) - 1]})


def main():
    graph = chain()
    names = [method.name for method in neap.methods()]
    assert "checkmate" in names, f"built without HiGHS: {names}"
    for method in ("neap", "checkmate-lp"):
        plan = neap.plan(graph, "50%", method=method, time_limit=5)
        assert plan.check() and plan.recomputed_ops > 0 and plan.peak <= plan.budget
        print(f"neap {neap.__version__}, {method}: {plan}")


if __name__ == "__main__":
    main()
