"""Masks that transformers builds only while it is compiled are taken out of attention: the step then is the one that runs
without a compiler, to the bit."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from harness import Bits, assert_same_bits, forget, gradients, planned
from torch import nn

from neap.torch import attention

LENGTH = 32


class Tokens(nn.Module):
    """A small language model of transformers, with its loss."""

    def __init__(self, name: str) -> None:
        super().__init__()
        import transformers

        if name == "gpt2":
            config = transformers.GPT2Config(n_layer=2, n_embd=32, n_head=2, vocab_size=64, n_positions=LENGTH,
                                             bos_token_id=0, eos_token_id=0, use_cache=False)
            self.model = transformers.GPT2LMHeadModel(config)
        else:
            config = transformers.BertConfig(num_hidden_layers=2, hidden_size=32, num_attention_heads=2, vocab_size=64,
                                             intermediate_size=64)
            self.model = transformers.BertForMaskedLM(config)

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        logits = self.model(input_ids=tokens, attention_mask=mask).logits
        return F.cross_entropy(logits.flatten(0, 1), tokens.flatten())


class Attention(nn.Module):
    """Attention with a mask of its own."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=x.device).tril()
        return F.scaled_dot_product_attention(x, x, x, attn_mask=mask)


def captured(module: nn.Module, *args: torch.Tensor) -> tuple[int, list[torch.fx.Node]]:
    """How many masks were taken out of a module's graph, and its attention nodes."""
    found = []

    def backend(graph_module: torch.fx.GraphModule, inputs: list) -> object:
        count = attention.drop_needless_masks(graph_module)
        found.append((count, graph_module.graph.find_nodes(op="call_function", target=F.scaled_dot_product_attention)))
        return graph_module

    forget()
    torch.compile(module, backend=backend, fullgraph=True)(*args)
    return found[0]


def tokens() -> torch.Tensor:
    return torch.randint(0, 64, (2, LENGTH), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name, causal", [("gpt2", True), ("bert", False)])
def test_no_mask_is_left(name: str, causal: bool) -> None:
    count, nodes = captured(Tokens(name), tokens())
    assert count in (0, 2) and len(nodes) == 2  # 0: transformers builds none for this version of PyTorch
    for node in nodes:
        assert node.kwargs["attn_mask"] is None and node.kwargs["is_causal"] is causal


def test_masks_that_matter_stay() -> None:
    count, nodes = captured(Tokens("gpt2"), tokens(), torch.ones(2, LENGTH, dtype=torch.long))
    assert count == 0 and all(isinstance(node.kwargs["attn_mask"], torch.fx.Node) for node in nodes)
    assert captured(Attention(), torch.randn(1, 2, LENGTH, 8))[0] == 0


@pytest.mark.parametrize("name", ["gpt2", "bert"])
def test_step_is_the_one_without_a_compiler(name: str, monkeypatch) -> None:
    monkeypatch.setattr(attention, "DEVICES", {"cpu"})
    results = []
    for compiled in (False, True):
        torch.manual_seed(0)
        module = Tokens(name)
        run = planned(module, "100%") if compiled else module
        torch.manual_seed(1)
        loss = run(tokens())
        loss.backward()
        results.append({key: Bits.of(t) for key, t in (gradients(module) | {"loss": loss}).items()})
    assert_same_bits(results[1], results[0])


@pytest.mark.parametrize("mask, kind", [
    (lambda: torch.ones(4, 4, dtype=torch.bool).tril(), "causal"),
    (lambda: torch.ones(1, 1, 4, 4, dtype=torch.bool).tril().expand(3, -1, 4, 4), "causal"),
    (lambda: torch.full((4, 4), torch.finfo(torch.float32).min).triu(1), "causal"),
    (lambda: torch.full((4, 4), -1.0).triu(1), ""),
    (lambda: torch.ones(4, 4, dtype=torch.bool), "empty"),
    (lambda: torch.ones(4, 4, dtype=torch.bool).tril(-1), ""),
    (lambda: torch.ones(4, 4, dtype=torch.bool).tril(1), ""),
    (lambda: torch.ones(3, 4, dtype=torch.bool).tril(), ""),
    (lambda: torch.ones(4, 4, dtype=torch.bool).tril_(), ""),
])
def test_kinds_of_masks(mask, kind: str) -> None:
    class Model(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + mask()

    found = []

    def backend(graph_module: torch.fx.GraphModule, inputs: list) -> object:
        output = graph_module.graph.find_nodes(op="output")[0]
        found.append(attention._kind(output.args[0][0].args[1]))
        return graph_module

    forget()
    torch.compile(Model(), backend=backend)(torch.zeros(mask().shape))
    assert found == [kind]
