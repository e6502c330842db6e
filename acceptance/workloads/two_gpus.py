"""Train a model with its first half on one GPU and its second half on another."""

import torch
from torch import nn

import measure

WIDTH = 4096
BATCH = 512


def two_gpus(iterations):
    first = nn.Linear(WIDTH, WIDTH).to("cuda:0")
    second = nn.Linear(WIDTH, WIDTH).to("cuda:1")
    for _ in range(iterations):
        x = torch.randn(BATCH, WIDTH, device="cuda:0")
        hidden = first(x).relu()
        y = second(hidden.to("cuda:1"))
        y.sum().backward()


if __name__ == "__main__":
    measure.main(two_gpus, iterations=4)
