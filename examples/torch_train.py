"""Trains a small network within a memory budget: the plainest use of neap with PyTorch.

python examples/torch_train.py      (environment: BUDGET, KERNELS, STEPS)
"""

import os

import torch

import neap.torch

device = "cuda" if torch.cuda.is_available() else "cpu"
layers = [torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.LayerNorm(256), torch.nn.GELU()) for _ in range(8)]
model = torch.nn.Sequential(*layers, torch.nn.Linear(256, 10)).to(device)
optimizer = torch.optim.AdamW(model.parameters())

backend = neap.torch.backend(os.environ.get("BUDGET", "24MiB"), kernels=os.environ.get("KERNELS", "inductor"))
compiled = torch.compile(model, backend=backend)

for step in range(int(os.environ.get("STEPS", 100))):
    inputs, labels = torch.randn(1024, 256, device=device), torch.randint(10, (1024,), device=device)
    loss = torch.nn.functional.cross_entropy(compiled(inputs), labels)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
print(f"loss {loss.item():.3f}; {backend.reports[0]}")
