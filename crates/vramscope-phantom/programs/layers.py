"""Trains so many linear layers of 4,096 by 4,096 for three steps with Adam: some 270 MB each."""

import sys

import torch

model = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096) for _ in range(int(sys.argv[1]))]).cuda()
optimizer = torch.optim.Adam(model.parameters())
for _ in range(3):
    optimizer.zero_grad()
    model(torch.randn(256, 4096, device="cuda")).square().mean().backward()
    optimizer.step()
