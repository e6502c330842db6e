import math

import torch
from torch import nn


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.out = nn.Linear(dim, dim)

    def forward(self, x):
        batch, length, dim = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(dim // self.heads)
        weights = scores.softmax(dim=-1)
        mixed = weights @ v
        return self.out(mixed.transpose(1, 2).reshape(batch, length, dim))


class Layer(nn.Module):
    def __init__(self, dim=512, heads=8):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.attention = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2048), nn.GELU(), nn.Linear(2048, dim))

    def forward(self, x):
        x = x + self.attention(self.norm(x))
        return x + self.mlp(x)


def main(steps=4, batch=6, length=2048):
    model = nn.Sequential(*[Layer() for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(steps):
        signal = torch.randn(batch, length, 512, device="cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = nn.functional.mse_loss(model(signal), signal)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained", steps, "steps")


main()
