"""The examples of docs/python.md run and print what they say."""

import re

import pytest
from core_support import CHECKOUT

DOC = CHECKOUT / "docs" / "python.md"


def test_examples(tmp_path, monkeypatch, capsys, short_search):
    pytest.importorskip("networkx")
    monkeypatch.chdir(tmp_path)
    code = "\n".join(re.findall(r"```python\n(.*?)```", DOC.read_text(), re.S))
    exec(compile(code, str(DOC), "exec"), {})
    said = capsys.readouterr().out
    promised = re.findall(r"print\((?!plan.chart).*\) +# (.*)", code)
    assert len(promised) >= 5
    for line in promised:
        assert line.removesuffix(" ...") in said
