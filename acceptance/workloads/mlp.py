"""Train eight linear layers with Adam."""

import os

import torch
from torch import nn

import measure

WIDTH = 2048
BATCH = int(os.environ.get("BATCH", "256"))


def mlp(iterations):
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(8)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(iterations):
        x = torch.randn(BATCH, WIDTH, device="cuda")
        loss = model(x).pow(2).mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(mlp, iterations=3)
