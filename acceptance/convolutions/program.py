"""Run convolutions with cuDNN: given layers, random ones, or some whose plans PyTorch measures. Prints what PyTorch allocates, as JSON.

    vramscope phantom run --once -- python acceptance/convolutions/program.py layers
    vramscope phantom run --once -- python acceptance/convolutions/program.py random SEED COUNT
    vramscope phantom run -- python acceptance/convolutions/program.py measured
"""

import json
import random
import sys

import torch
from torch import nn
from torch.nn import functional as F

# Sizes of inputs and weights: the first layers of JasperSolt/EoR_NN.
LAYERS = [((1, 30, 256, 256), (16, 30, 3, 3)), ((1, 16, 128, 128), (32, 16, 3, 3)), ((1, 32, 64, 64), (64, 32, 3, 3))]


def layers():
    for inputs, weights in LAYERS:
        x = torch.zeros(inputs, device="cuda", requires_grad=True)
        weight = torch.zeros(weights, device="cuda")
        forward, y = temporary(lambda x=x, weight=weight: F.conv2d(x, weight, padding=1))
        gradient = torch.zeros_like(y)
        backward, _ = temporary(lambda y=y, gradient=gradient: y.backward(gradient))
        print(json.dumps({"forward": forward, "backward": backward}))
    print(json.dumps({"cudnn": torch.backends.cudnn.version()}))


def temporary(call):
    """The requested bytes of allocations that a call makes and frees, and its result."""
    torch.cuda.memory._record_memory_history(context=None)
    result = call()
    torch.cuda.synchronize()
    allocated, freed = {}, []
    for event in torch.cuda.memory._snapshot()["device_traces"][0]:
        if event["action"] == "alloc":
            allocated[event["addr"]] = event["size"]
        elif event["action"] == "free_completed" and event["addr"] in allocated:
            freed.append(allocated.pop(event["addr"]))
    torch.cuda.memory._record_memory_history(enabled=None)
    return freed, result


def random_ones(seed, count):
    choose = random.Random(seed).choice
    kinds = [[nn.Conv1d, nn.Conv2d, nn.Conv3d], [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d]]
    formats = {2: torch.channels_last, 3: torch.channels_last_3d}
    for number in range(count):
        dimensions = choose([1, 2, 2, 2, 3])
        groups = choose([1, 1, 1, 2, 4, 8])
        inputs, outputs = groups * choose([1, 3, 4, 8, 16, 32]), groups * choose([1, 2, 8, 16, 32])
        size = choose([[33, 64, 500], [7, 14, 28, 57, 112], [5, 8, 16]][dimensions - 1])
        kernel = choose([1, 2, 3, 3, 5, 7])
        settings = {"stride": choose([1, 1, 2]), "padding": choose([0, 1, kernel // 2]), "groups": groups, "bias": choose([True, False])}
        settings["dilation"] = choose([1, 1, 2])
        # A kernel is not larger than its padded input.
        size = max(size, settings["dilation"] * (kernel - 1) + 1)
        kind = choose(kinds)[dimensions - 1]
        dtype = choose([torch.float, torch.half, torch.bfloat16])
        channels_last = choose([True, False])
        torch.backends.cudnn.allow_tf32 = choose([True, False])
        torch.backends.cudnn.deterministic = choose([True, False, False])
        torch.backends.cudnn.benchmark = choose([True, False, False, False])
        # If the program ends here, the last line says where.
        what = f"{number}: {kind.__name__}({inputs}, {outputs}, {kernel}, {settings}), {size}, {dtype}, {channels_last=}"
        print(what, file=sys.stderr)
        layer = kind(inputs, outputs, kernel, **settings).to("cuda", dtype)
        x = torch.zeros(choose([1, 2, 8]), inputs, *[size] * dimensions, device="cuda", dtype=dtype, requires_grad=True)
        if channels_last and dimensions in formats:
            layer, x = layer.to(memory_format=formats[dimensions]), x.to(memory_format=formats[dimensions])
        try:
            layer(x).sum().backward()
        except RuntimeError as error:
            print(json.dumps({"failed": what, "error": str(error)[:300]}))
    print(json.dumps({"convolutions": count, "peak": torch.cuda.max_memory_allocated()}))


def measured():
    """PyTorch keeps the fastest plan of each convolution, which is that with the smallest workspace or with the largest."""
    torch.backends.cudnn.benchmark = True
    model = nn.Sequential(*(nn.Conv2d(64, 64, 3, padding=1) for _ in range(3))).cuda()
    for _ in range(2):
        model(torch.zeros(16, 64, 112, 112, device="cuda")).sum().backward()
    print(json.dumps({"peak": torch.cuda.max_memory_allocated(), "cudnn": torch.backends.cudnn.version()}))


if __name__ == "__main__":
    if sys.argv[1] == "layers":
        layers()
    elif sys.argv[1] == "measured":
        measured()
    else:
        random_ones(*map(int, sys.argv[2:]))
