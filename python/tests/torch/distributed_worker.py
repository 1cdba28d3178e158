"""One rank of test_distributed.py: trains in each way, unplanned and planned, and says what came out.

    torchrun --standalone --nproc-per-node 2 distributed_worker.py WAY=BUDGET...

The first rank prints a line of JSON for every way: whether losses, gradients, parameters and buffers agree
in every bit on all ranks, and how many graphs were planned.
"""

from __future__ import annotations

import hashlib
import json
import sys

import torch
import torch.distributed as dist
from blocks import DeepLoss, batch
from harness import Bits, forget
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import neap.torch

STEPS = 4


def ddp_of_compiled(module: nn.Module, backend: object) -> nn.Module:
    return DistributedDataParallel(torch.compile(module, backend=backend))


def compiled_ddp(module: nn.Module, backend: object) -> nn.Module:
    return torch.compile(DistributedDataParallel(module), backend=backend)


def ddp_with_static_graph(module: nn.Module, backend: object) -> nn.Module:
    return DistributedDataParallel(torch.compile(module, backend=backend), static_graph=True, bucket_cap_mb=1)


def fsdp_root(module: nn.Module, backend: object) -> nn.Module:
    fully_shard(module)
    return torch.compile(module, backend=backend)


def fsdp_compiled_blocks(module: nn.Module, backend: object) -> nn.Module:
    for layer in module.layers:
        layer.compile(backend=backend)
        fully_shard(layer)
    fully_shard(module)
    return module


def fsdp_blocks(module: nn.Module, backend: object) -> nn.Module:
    for layer in module.layers:
        fully_shard(layer)
    fully_shard(module)
    return torch.compile(module, backend=backend)


WAYS = {f.__name__: f for f in (ddp_of_compiled, compiled_ddp, ddp_with_static_graph, fsdp_root, fsdp_compiled_blocks,
                                 fsdp_blocks)}

# The unplanned run of these is compared with itself: one of DDP, one of FSDP.
REPEATED = ("ddp_of_compiled", "fsdp_blocks")


def local(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def train(way: str, backend: object) -> str:
    """A digest of everything that the training computes on this rank."""
    forget()
    torch.manual_seed(0)
    module = DeepLoss(depth=4)
    run = WAYS[way](module, backend)
    torch.manual_seed(100 + dist.get_rank())
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-3)
    digest = hashlib.sha256()
    for step in range(STEPS):
        optimizer.zero_grad()
        loss = run(batch(2 * step + dist.get_rank()))
        loss.backward()
        digest.update(Bits.of(loss).bytes.tobytes())
        for parameter in module.parameters():
            digest.update(Bits.of(local(parameter.grad)).bytes.tobytes())
        optimizer.step()
    for value in module.state_dict().values():
        digest.update(Bits.of(local(value)).bytes.tobytes())
    digest.update(torch.random.get_rng_state().numpy().tobytes())
    return digest.hexdigest()


def compare(way: str, budget: str) -> dict[str, object]:
    expected = train(way, "aot_eager")
    again = train(way, "aot_eager") if way in REPEATED else expected
    backend = neap.torch.backend(budget=budget, kernels="eager", time_limit=2)
    try:
        ours, error = train(way, backend), None
    except neap.NeapError as refused:
        ours, error = "", str(refused)
    plans = [hashlib.sha256(report.plan.to_json().encode()).hexdigest() for report in backend.reports]
    everyone: list = [None] * dist.get_world_size()
    dist.all_gather_object(everyone, (expected == again, ours == expected, plans, error))
    return {
        "way": way,
        "repeatable": all(e[0] for e in everyone),
        "equal": all(e[1] for e in everyone),
        "same plans": all(e[2] == plans for e in everyone),
        "plans": len(plans),
        "overhead": max((report.plan.overhead for report in backend.reports), default=0.0),
        "error": error,
    }


def main() -> None:
    dist.init_process_group("gloo")
    for argument in sys.argv[1:]:
        result = compare(*argument.split("="))
        if dist.get_rank() == 0:
            print(json.dumps(result), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
