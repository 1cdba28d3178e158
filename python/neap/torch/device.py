"""Devices as the cost model sees them: allocation granularity, speed where it is not measured, and what a
measurement depends on.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass

import torch

CUDA_BLOCK = 512  # the caching allocator's granularity, bytes
CPU_BLOCK = 64  # alignment of PyTorch's allocations on the CPU, bytes


def rounded(size: int, device: torch.device | str) -> int:
    """The bytes that an allocation of ``size`` bytes takes on the device: multiples of 512 on CUDA, of 64
    elsewhere.
    """
    block = CUDA_BLOCK if torch.device(device).type == "cuda" else CPU_BLOCK
    return -(-int(size) // block) * block


@dataclass(frozen=True)
class Speed:
    """What a device reaches in practice: usable bandwidth in bytes/s, flops/s by kind of arithmetic, seconds to
    launch a kernel.
    """

    bandwidth: float
    half: float  # bf16 and fp16 on matrix units
    tf32: float
    single: float
    double: float
    launch: float

    def flops(self, dtype: torch.dtype) -> float:
        """The rate of matrix products in ``dtype`` under the tf32 setting in force."""
        if dtype in (torch.bfloat16, torch.float16):
            return self.half
        if dtype == torch.float64:
            return self.double
        return self.tf32 if dtype == torch.float32 and _tf32() else self.single


def _gpu(bandwidth: float, half: float, tf32: float, single: float, double: float) -> Speed:
    """A GPU from its data sheet, in TB/s and Tflop/s; large products reach about 65% of the peak rates."""
    return Speed(bandwidth * 1e12, *(0.65e12 * rate for rate in (half, tf32, single, double)), launch=3e-6)


# Usable bandwidth (about 85% of the data sheet's); peak rates without sparsity. The first name contained in the
# device's is taken.
_GPUS = {
    "B200": _gpu(6.8, 2250, 1100, 75, 37),
    "H200": _gpu(4.0, 989, 494, 67, 67),
    "H100 PCIe": _gpu(1.7, 756, 378, 51, 51),
    "H100": _gpu(2.8, 989, 494, 67, 67),
    "A100": _gpu(1.5, 312, 156, 19.5, 19.5),
    "A10G": _gpu(0.5, 70, 35, 31, 0.5),
    "L40": _gpu(0.75, 181, 90, 90, 1.4),
    "L4": _gpu(0.26, 121, 60, 30, 0.5),
    "V100": _gpu(0.78, 125, 15.7, 15.7, 7.8),
    "T4": _gpu(0.26, 65, 8.1, 8.1, 0.25),
    "RTX 4090": _gpu(0.9, 165, 82, 82, 1.3),
    "RTX 3090": _gpu(0.8, 71, 35, 35, 0.55),
}
_DEFAULT_GPU = "H200"


def speed_of(device: torch.device) -> Speed:
    """The speed of a device: from the table where its name is known, from its properties otherwise."""
    if device.type != "cuda":
        cores = torch.get_num_threads()
        return Speed(15e9, 2e10 * cores, 4e10 * cores, 4e10 * cores, 2e10 * cores, launch=2e-6)
    if not torch.cuda.is_available():
        return _GPUS[_DEFAULT_GPU]
    properties = torch.cuda.get_device_properties(device)
    for name, speed in _GPUS.items():
        if name in properties.name:
            return speed
    # 128 fp32 lanes a multiprocessor at about 1.5 GHz, two flops each; matrix units about four times that.
    single = properties.multi_processor_count * 128 * 2 * 1.5e-3
    clock, width = getattr(properties, "memory_clock_rate", 0), getattr(properties, "memory_bus_width", 0)
    bandwidth = 0.85 * 2 * clock * 1e3 * width / 8 / 1e12 or 0.5
    return _gpu(bandwidth, 4 * single, 2 * single, single, single / 32)


def cache_bytes(device: torch.device) -> int:
    """Size of the last-level cache of a GPU; 0 elsewhere, where measurements do not tell what was in a cache."""
    if device.type != "cuda" or not torch.cuda.is_available():
        return 0
    return int(getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 0))


def device_key(device: torch.device) -> str:
    """The device and the versions of the libraries that run on it: the part of a measurement's identity that
    has its own file.
    """
    if device.type == "cuda" and torch.cuda.is_available():
        name = torch.cuda.get_device_name(device)
        cudnn = torch.backends.cudnn.version()
        return f"{name}; torch {torch.__version__}; cuda {torch.version.cuda}; cudnn {cudnn}"
    return f"{device.type} {_processor()}; torch {torch.__version__}"


def settings_key(device: torch.device) -> str:
    """The process's settings that choose kernels: deterministic algorithms, tf32, reduced precision,
    autotuning, CPU threads.
    """
    words = {"deterministic": torch.are_deterministic_algorithms_enabled()}
    if device.type == "cuda":
        matmul, cudnn = torch.backends.cuda.matmul, torch.backends.cudnn
        words |= {
            "tf32": _tf32(),
            "conv_precision": _read(_read(cudnn, "conv"), "fp32_precision"),
            "bf16_reduction": _read(matmul, "allow_bf16_reduced_precision_reduction"),
            "fp16_reduction": _read(matmul, "allow_fp16_reduced_precision_reduction"),
            "cudnn": cudnn.enabled,
            "benchmark": cudnn.benchmark,
            "cudnn_deterministic": cudnn.deterministic,
            "cublas_workspace": os.environ.get("CUBLAS_WORKSPACE_CONFIG", ""),
        }
    else:
        words |= {"threads": torch.get_num_threads(), "mkldnn": torch.backends.mkldnn.enabled}
    return ", ".join(f"{key} {value}" for key, value in words.items())


def _tf32() -> bool:
    """Whether float32 products may use tf32. The newer setting is asked first: it knows what the older one was
    set to.
    """
    precision = _read(torch.backends.cuda.matmul, "fp32_precision")
    if precision is None:
        return bool(_read(torch.backends.cuda.matmul, "allow_tf32"))
    return precision == "tf32"


def _read(module: object, name: str) -> object:
    try:
        return getattr(module, name)
    except (AttributeError, RuntimeError):
        return None


def _processor() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
