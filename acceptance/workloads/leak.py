"""Keep a tensor of every step, and with it the step's autograd graph and input."""

import torch
from torch import nn

import measure

WIDTH = 1024
BATCH = 128
STEPS_PER_ITERATION = 10


def leak(iterations):
    model = nn.Linear(WIDTH, WIDTH).cuda()
    kept = []
    for _ in range(iterations * STEPS_PER_ITERATION):
        x = torch.randn(BATCH, WIDTH, device="cuda")
        loss = model(x).pow(2).mean(1)
        kept.append(loss + model(x).mean())
        loss.sum().backward()
    return kept


if __name__ == "__main__":
    measure.main(leak, iterations=3)
