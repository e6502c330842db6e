"""PyTorch's queries about the GPU, and its profiling tools."""

import torch
from torch import nn

from cases import case


@case
def properties_and_summaries():
    properties = torch.cuda.get_device_properties(0)
    assert properties.name in repr(properties) and properties.total_memory > 1 << 30
    assert torch.cuda.get_device_capability() == (properties.major, properties.minor)
    free, total = torch.cuda.mem_get_info()
    assert 0 < free < total == properties.total_memory
    x = torch.empty(1 << 20, dtype=torch.uint8, device="cuda")
    assert "Allocated memory" in torch.cuda.memory_summary()
    stats = torch.cuda.memory_stats()
    assert stats["allocated_bytes.all.current"] == torch.cuda.memory_allocated() >= x.numel()
    assert torch.cuda.get_arch_list() and torch.cuda.is_bf16_supported()
    assert torch.cuda.can_device_access_peer(0, 0) is False


@case
def a_profile():
    from torch.profiler import ProfilerActivity, profile, record_function, schedule

    model = nn.Linear(64, 64).cuda()
    activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, profile_memory=True, schedule=schedule(wait=1, warmup=1, active=1)) as profiled:
        for _ in range(3):
            with record_function("step"):
                model(torch.randn(8, 64, device="cuda")).sum().backward()
            profiled.step()
    names = {event.key for event in profiled.key_averages()}
    assert {"step", "aten::linear"} <= names
    assert any(event.device_memory_usage > 0 for event in profiled.key_averages())


@case
def marks_for_nsight():
    torch.cuda.nvtx.range_push("step")
    torch.cuda.nvtx.mark("here")
    torch.cuda.nvtx.range_pop()
    with torch.cuda.profiler.profile():
        assert torch.zeros(3, device="cuda").shape == (3,)


@case(needs=["pynvml"])
def what_nvml_says():
    import os

    import pynvml

    x = torch.zeros(1 << 20, device="cuda")
    assert f"process {os.getpid():>10d}" in torch.cuda.list_gpu_processes()
    assert 0 <= torch.cuda.utilization() <= 100
    assert torch.cuda.device_memory_used() >= x.numel() * 4
    # A phantom GPU has no sensors, and reports that.
    for sensor in (torch.cuda.temperature, torch.cuda.power_draw):
        try:
            sensor()
        except pynvml.NVMLError_NotSupported:
            continue
        raise AssertionError(sensor.__name__)
