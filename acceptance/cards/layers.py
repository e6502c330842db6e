"""Train a number of linear layers of 4,096 by 4,096 for three steps with Adam. Each takes about 270 MB."""

import sys

import torch

model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(int(sys.argv[1]))]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(256, 4096, device="cuda")).square().mean().backward()
    optimizer.step()
