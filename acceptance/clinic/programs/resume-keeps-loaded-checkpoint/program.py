import copy
import os
import tempfile

import torch
from torch import nn


def make_model(width=2560, depth=6):
    return nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(depth)])


def train(model, optimizer, steps, batch=14336):
    for _ in range(steps):
        x = torch.randn(batch, 2560, device="cuda")
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def save(path, step):
    model = make_model().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    train(model, optimizer, steps=1, batch=64)
    average = copy.deepcopy(model.state_dict())
    torch.save({"model": model.state_dict(), "average": average, "optimizer": optimizer.state_dict(), "step": step}, path)


def resume(path, steps):
    checkpoint = torch.load(path, map_location="cuda")
    model = make_model().cuda()
    model.load_state_dict(checkpoint["model"])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["step"]
    train(model, optimizer, steps)
    print(f"trained from step {start} to {start + steps}")


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    save(path, step=1000)
    torch.cuda.empty_cache()
    resume(path, steps=3)
