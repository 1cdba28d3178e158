"""Llama 1B with the Hugging Face Trainer in a budget (environment: BUDGET, KERNELS, STEPS, BATCH, LENGTH, SIZES)."""

import json
import os
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

import neap.torch

sizes = dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16, num_key_value_heads=8, vocab_size=128256)
config = LlamaConfig(**sizes | json.loads(os.environ.get("SIZES", "{}")))
backend = neap.torch.backend(os.environ.get("BUDGET", "40GiB"), kernels=os.environ.get("KERNELS", "inductor"))
model = LlamaForCausalLM(config)
model.compile(backend=backend)

tokens = torch.randint(config.vocab_size, (64, int(os.environ.get("LENGTH", 1024))))
arguments = TrainingArguments(
    tempfile.mkdtemp(),
    max_steps=int(os.environ.get("STEPS", 50)),
    per_device_train_batch_size=int(os.environ.get("BATCH", 4)),
    save_strategy="no",
    report_to="none",
)
Trainer(model, arguments, train_dataset=[{"input_ids": row, "labels": row} for row in tokens]).train()
print(backend.reports[0])
