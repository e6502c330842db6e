"""Train a mixture of experts with AdamW. The number of tokens of each expert varies from step to step, as a router would select them."""

import random

import torch
from torch import nn
from torch.nn import functional as F

import measure

TOKENS = 4096
WIDTH = 512
EXPERTS = 8
LAYERS = 4


class Experts(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.router = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, EXPERTS)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)) for _ in range(EXPERTS)
        )

    def forward(self, x, counts):
        normed = self.norm(x)
        weights = self.router(normed).softmax(dim=1)
        result, begin = torch.zeros_like(x), 0
        for expert, count in zip(range(EXPERTS), counts):
            # The selected tokens. Which ones they are does not matter for memory.
            selected = torch.arange(begin, begin + count, device=x.device)
            output = self.experts[expert](normed[selected]) * weights[selected, expert, None]
            result = result.index_add(0, selected, output)
            begin += count
        return x + result


def moe(iterations):
    chance = random.Random(0)
    layers = nn.ModuleList(Experts() for _ in range(LAYERS)).cuda()
    optimizer = torch.optim.AdamW(layers.parameters())
    for _ in range(iterations):
        x = torch.randn(TOKENS, WIDTH, device="cuda")
        for layer in layers:
            ends = sorted(chance.randint(0, TOKENS) for _ in range(EXPERTS - 1))
            counts = [end - begin for begin, end in zip([0, *ends], [*ends, TOKENS])]
            x = layer(x, counts)
        F.mse_loss(x, torch.zeros_like(x)).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(moe, iterations=8)
