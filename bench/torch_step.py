"""Times training steps of a torchvision network: the PyTorch side of bench/train_speed.

    torch_step.py MODEL BATCH THREADS contiguous|channels_last

Runs forward and backward once for each line of input and prints elapsed seconds and CPU seconds. Gradients are computed
but there is no optimizer step.
"""

import sys
import time

import torch
import torchvision


def main():
    name, batch, threads, layout = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    torch.set_num_threads(threads)
    layout = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    model = getattr(torchvision.models, name)(weights=None).to(memory_format=layout).train()
    images = torch.randn(batch, 3, 224, 224).to(memory_format=layout)
    labels = torch.arange(batch) * 37 % 10
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        begin, begin_processor = time.perf_counter(), time.process_time()
        model.zero_grad()
        torch.nn.functional.cross_entropy(model(images), labels).backward()
        print(f"{time.perf_counter() - begin:.6f} {time.process_time() - begin_processor:.6f}", flush=True)


if __name__ == "__main__":
    main()
