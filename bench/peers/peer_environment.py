"""What libraries read only at the start of a process, set so that PyTorch is at its fastest."""

import os
import sys

# Freed activations stay in the process instead of going back to the kernel after every step, and
# are backed by huge pages.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4294967296",
    "MALLOC_TRIM_THRESHOLD_": "8589934592",
    "GLIBC_TUNABLES": "glibc.malloc.hugetlb=1",
}


def blas():
    """OpenBLAS 0.3.21 takes SSE3 kernels on CPUs that it does not know: a quarter of the speed."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        flags = next((line.split() for line in file if line.startswith("flags")), [])
    wide = {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"} <= set(flags)
    return {"OPENBLAS_CORETYPE": "SkylakeX"} if wide else {}


def start_again(malloc):
    """Replaces this process by itself unless its environment is so already."""
    wanted = {**blas(), **(MALLOC if malloc == "tuned" else {})}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.execve(sys.executable, [sys.executable] + sys.argv, {**os.environ, **wanted})
