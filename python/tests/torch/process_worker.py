"""Trains two steps in a process of its own, for test_processes.py. Prints lines of JSON.

    process_worker.py train             what came out: digests of the bits and of the plan, what was warned
    process_worker.py interrupt         says {"planning": true}, waits for SIGINT, then trains with no budget
"""

from __future__ import annotations

import hashlib
import json
import logging
import signal
import sys
import time
import warnings

import torch
from blocks import DeepLoss, batch
from harness import Bits, gradients

import neap.planning
import neap.torch


def steps(run: object, module: torch.nn.Module) -> str:
    torch.manual_seed(1)
    digest = hashlib.sha256()
    for number in range(2):
        loss = run(batch(number))
        loss.backward()
        digest.update(Bits.of(loss).bytes.tobytes())
    for value in gradients(module).values():
        digest.update(Bits.of(value).bytes.tobytes())
    return digest.hexdigest()


def train() -> dict[str, object]:
    messages: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda entry: messages.append(entry.getMessage())
    logging.getLogger("neap").addHandler(handler)
    torch.manual_seed(0)
    module = DeepLoss()
    backend = neap.torch.backend(budget="60%", kernels="eager", time_limit=3)
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        bits = steps(torch.compile(module, backend=backend), module)
    report = backend.reports[0]
    return {
        "bits": bits,
        "plan": hashlib.sha256(report.plan.to_json().encode()).hexdigest(),
        "overhead": report.plan.overhead,
        "seconds": sum(report.seconds.values()),
        "messages": messages + [str(w.message) for w in warned],
    }


def interrupt() -> dict[str, object]:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background begins without it
    plan = neap.planning.plan

    def announced(*args: object, **kwargs: object) -> object:
        """Plans again and again, so that the signal comes while it plans, however fast that is."""
        nonlocal began
        print(json.dumps({"planning": True}), flush=True)
        began = time.perf_counter()
        while True:
            made = plan(*args, **kwargs)
            if time.perf_counter() > began + 100:
                return made

    neap.planning.plan = announced
    torch.manual_seed(0)
    module = DeepLoss(depth=24)
    backend = neap.torch.backend(budget="45%", kernels="eager", time_limit=120, gap=1e-12, cache=False)
    began = 0.0
    stopped = False
    try:
        torch.compile(module, backend=backend)(batch())
    except KeyboardInterrupt:
        stopped = True
    seconds = time.perf_counter() - began
    neap.planning.plan = plan
    torch._dynamo.reset()
    bits = steps(torch.compile(module, backend=neap.torch.backend(kernels="eager")), module)
    return {"stopped": stopped, "seconds": seconds, "bits": bits}


if __name__ == "__main__":
    print(json.dumps({"train": train, "interrupt": interrupt}[sys.argv[1]]()), flush=True)
