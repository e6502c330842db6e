"""Prints the memory of a training step by category and by layer.

python examples/python/record_training.py
"""

from __future__ import annotations

from collections import OrderedDict

import torch
import vramscope
import vramscope.torch
from torch import nn

MIB = 1 << 20


def classifier(width: int = 256, depth: int = 4, classes: int = 1000) -> nn.Module:
    """A small transformer that classifies each row of a sequence."""
    blocks = [nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True) for _ in range(depth)]
    return nn.Sequential(OrderedDict(blocks=nn.Sequential(*blocks), head=nn.Linear(width, classes)))


def train(steps: int = 3) -> str:
    """Records a few training steps; returns the path of the recording."""
    model = classifier().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    with vramscope.torch.record("training.pickle", model=model, optimizer=optimizer) as recording:
        for _ in range(steps):
            features = torch.randn(64, 128, 256, device="cuda")
            classes = torch.randint(1000, (64,), device="cuda")
            loss = nn.functional.cross_entropy(model(features).mean(dim=1), classes)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    return str(recording.path)


def main() -> None:
    """Trains, and prints the holders at the peak of allocated bytes."""
    recording = vramscope.read(train())
    print(f"{recording.peaks()['peak_allocated_bytes'] / MIB:.0f} MiB were allocated at the peak:")
    for by in ("category", "layer"):
        print(f"by {by}")
        for holder in recording.holders(by=by, top=6):
            print(f"{holder['bytes'] / MIB:8.1f} MiB  {holder['key']}")


if __name__ == "__main__":
    main()
