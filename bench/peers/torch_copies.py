"""The copies of copy_contiguous and copy_transposed as torch makes them: one thread, into a tensor that is there."""

import statistics
import time

import torch

torch.set_num_threads(1)
source = torch.ones(4096, 4096)
target = torch.full((4096, 4096), 2.0)
for name, view in (("copy_contiguous", source), ("copy_transposed", source.t())):
    rounds = []
    for _ in range(12):
        start = time.perf_counter()
        target.copy_(view)
        rounds.append((time.perf_counter() - start) * 1e3)
    print(f"{name:<24} {statistics.median(rounds[1:]):9.2f} ms  torch {torch.__version__}, copy_")
