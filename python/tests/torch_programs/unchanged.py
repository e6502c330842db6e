"""Runs a program of features.py; writes its memory counters and its results: `unchanged.py NAME plain|ours OUT`.

Phantom GPUs compute nothing, so the program also runs on the CPU with the same random numbers.
"""

import gc
import json
import sys
from typing import Any

import features
import torch


def plain(value: Any) -> Any:
    return value.detach().double().cpu().tolist() if isinstance(value, torch.Tensor) else value


def main(name: str, how: str, out: str) -> None:
    program = features.PROGRAMS[name]
    records: list[Any] = []

    def begin(model: Any, optimizer: Any) -> None:
        if how == "ours":
            import vramscope.torch

            records.append(vramscope.torch.record(out + ".pickle", model=model, optimizer=optimizer))

    told = {}
    # Otherwise, reference cycles would be freed at unpredictable times.
    gc.disable()
    for device in ("cuda", "cpu"):
        features.DEVICE = device
        torch.manual_seed(0)
        result = [plain(value) for value in program(begin)]
        if device == "cuda":
            stats = torch.cuda.memory_stats()
            names = ("allocated_bytes.all.peak", "allocation.all.allocated", "allocated_bytes.all.allocated")
            told["memory"] = {name: stats[name] for name in names}
        else:
            told["result"] = result
        for record in records:
            record.stop()
    with open(out, "w") as file:
        json.dump(told, file)


if __name__ == "__main__":
    main(*sys.argv[1:])
