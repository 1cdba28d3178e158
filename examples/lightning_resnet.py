"""ResNet-50 in Lightning within a memory budget (environment: MODEL, BUDGET, KERNELS, STEPS, BATCH, SIDE)."""

import os

import lightning
import torch
import torchvision

import neap.torch

BATCH, SIDE, STEPS = (int(os.environ.get(name, n)) for name, n in (("BATCH", 128), ("SIDE", 224), ("STEPS", 50)))
backend = neap.torch.backend(os.environ.get("BUDGET", "6GiB"), kernels=os.environ.get("KERNELS", "inductor"))

class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.model = torchvision.models.get_model(os.environ.get("MODEL", "resnet50"))
        self.model.compile(backend=backend)

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.model(batch[0]), batch[1])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)

data = [(torch.randn(3, SIDE, SIDE), i) for i in range(BATCH)] * STEPS
trainer = lightning.Trainer(max_steps=STEPS, logger=False, enable_checkpointing=False)
trainer.fit(Classifier(), torch.utils.data.DataLoader(data, BATCH))
print(backend.reports[0])
