"""Settings of PyTorch's allocator and of cuBLAS, which a process reads once: each case has processes of its own."""

import json
import os
import subprocess
import sys

from cases import case

MIB = 1 << 20
STEP = """
import json, torch
model = torch.nn.Sequential(*[torch.nn.Linear(1100, 1100) for _ in range(4)]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(2):
    x = torch.randn(300, 1100).pin_memory().to("cuda", non_blocking=True)
    model(x).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
stats = torch.cuda.memory_stats()
print(json.dumps([stats.get(f"{name}_bytes.all.peak") for name in ("allocated", "reserved", "requested")]))
"""


def peaks(conf, **variables):
    """The most bytes that training steps have allocated, reserved and requested under these settings."""
    environment = {**os.environ, "PYTORCH_CUDA_ALLOC_CONF": conf, "PYTORCH_ALLOC_CONF": conf, **variables}
    done = subprocess.run([sys.executable, "-c", STEP], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, (conf, done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


@case
def settings_that_change_nothing_here():
    default = peaks("")
    for conf in (
        "garbage_collection_threshold:0.8",
        "max_split_size_mb:128",
        "pinned_use_cuda_host_register:True,pinned_num_register_threads:4",
        "pinned_use_background_threads:True",
        "release_lock_on_cudamalloc:True",
    ):
        assert peaks(conf) == default, (conf, default)


@case
def segments_that_grow_fragment_less():
    default, growing = peaks(""), peaks("expandable_segments:True")
    assert growing[0] <= default[0] and growing[1] < default[1], (growing, default)


@case
def sizes_that_are_rounded_up():
    default, rounded = peaks(""), peaks("roundup_power2_divisions:2")
    # A weight of 4.6 MiB becomes one of 6.
    assert rounded[0] > 1.1 * default[0], (rounded, default)


@case
def cudas_own_pool():
    default, pool = peaks(""), peaks("backend:cudaMallocAsync")
    assert 0.9 * default[0] < pool[0] < 1.1 * default[0] and pool[1] >= pool[0], (pool, default)


@case
def workspaces_of_cublas_as_they_are_asked_for():
    small, large = (peaks("", CUBLAS_WORKSPACE_CONFIG=f":{kib}:2")[2] for kib in (16, 4096))
    # A forward and a backward pass, each on a thread with a workspace of its own.
    more = 2 * 2 * (4096 - 16) * 1024
    assert more <= large - small < 1.1 * more, (small, large)
