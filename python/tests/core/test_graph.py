"""neap.Graph: reading, writing, and what it says about itself."""

import copy
import json
import pickle
import time

import neap
import pytest
from core_support import MIB, chain_dict


def test_reads_what_it_writes(chain, tmp_path):
    path = tmp_path / "graph.json"
    chain.write(path)
    again = neap.Graph.read(path)
    assert again.to_json() == chain.to_json() == path.read_text()
    assert neap.Graph.from_json(path.read_bytes()).to_dict() == json.loads(path.read_text())
    assert pickle.loads(pickle.dumps(chain)).to_json() == chain.to_json()


def test_keeps_unknown_fields():
    fields = chain_dict(2)
    fields["ops"][0]["note"] = {"where": ["layer", 1]}
    assert neap.Graph.from_dict(fields).to_dict()["ops"][0]["note"] == {"where": ["layer", 1]}


def test_contents(chain):
    fields = chain_dict(24)
    assert (chain.name, chain.op_count, chain.value_count) == ("chain24", 48, 49)
    assert chain.outputs == (48,)
    assert chain.ops[30].name == chain.op_name(30) == fields["ops"][30]["name"]
    assert chain.ops[30].is_backward and not chain.ops[3].is_backward
    assert [list(op.inputs) for op in chain.ops] == [op["inputs"] for op in fields["ops"]]
    assert chain.values[5] == neap.Value(5, "a4", "activation", MIB, None)
    assert chain.base_time == pytest.approx(24 * 0.003, rel=1e-12)
    assert chain.base_bytes == MIB
    with pytest.raises(IndexError):
        chain.op_name(48)


def test_costs_without_a_plan(chain):
    # The first backward op: the input, 24 activations, its own output.
    assert chain.natural_peak == 26 * MIB
    # b23 needs its two activations and its output; the others need a gradient in addition.
    assert chain.floor.bytes == 5 * MIB
    assert chain.floor.op in {f"b{i}" for i in range(1, 23)}
    assert "chain24" in repr(chain) and "48 ops" in repr(chain) and "26.0 MiB" in repr(chain)


def test_large_graphs_are_quick():
    fields = chain_dict(5000)
    begin = time.perf_counter()
    graph = neap.Graph.from_dict(fields)
    assert graph.op_count == 10000 and graph.ops[9999].inputs[0] == 0
    assert time.perf_counter() - begin < 5  # 0.1 s on an idle machine


def damaged():
    """Graphs with one thing wrong each, and words of the message."""

    def change(words, edit):
        fields = copy.deepcopy(chain_dict(3))
        edit(fields)
        return pytest.param(fields, words, id=words)

    yield change("value 99", lambda f: f["ops"][0].update(inputs=[99]))
    yield change("f1", lambda f: f["ops"][0].update(inputs=[2]))  # reads what a later op makes
    yield change("bytes", lambda f: f["values"][1].update(bytes=-1))
    yield change("time", lambda f: f["ops"][0].update(time="soon"))
    yield change("version", lambda f: f.update(version=2))
    yield change("neap", lambda f: f.pop("neap"))
    yield change("JSON", lambda f: f.update(name=float("nan")))
    yield change("JSON", lambda f: f.update(name=object()))


@pytest.mark.parametrize("fields, words", list(damaged()))
def test_wrong_graphs(fields, words):
    with pytest.raises(neap.InvalidError) as caught:
        neap.Graph.from_dict(fields)
    assert isinstance(caught.value, ValueError) and "\n" not in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "\0", '{"neap":"graph"}', '{"name":"\ud800"}', "[" * 100_000]
)
def test_hostile_text(text):
    with pytest.raises(neap.InvalidError):
        neap.Graph.from_json(text)


def test_messages_name_the_place(tmp_path):
    path = tmp_path / "broken.json"
    path.write_text('{"neap": "graph",\n "version": }')
    with pytest.raises(neap.InvalidError, match=r"broken\.json:2:13"):
        neap.Graph.read(path)
    with pytest.raises(neap.InvalidError, match="^captured:1:"):
        neap.Graph.from_json("{", source="captured")


def test_files_that_are_not_there(chain, tmp_path):
    with pytest.raises(neap.FileError, match="nowhere"):
        neap.Graph.read(tmp_path / "nowhere.json")
    with pytest.raises(OSError):
        chain.write(tmp_path / "no" / "folder.json")
    with pytest.raises(neap.InvalidError, match="NUL"):
        neap.Graph.read("a\0b")
