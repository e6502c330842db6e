"""Serve requests with a decoder: their keys and values grow by one token in each round, and requests arrive and leave at random."""

import random

import torch
from torch import nn
from torch.nn import functional as F

import measure

WIDTH = 1024
HEADS = 16
LAYERS = 6
MOST_REQUESTS = 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.projections, self.output = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.feed_forward = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, cache):
        query, key, value = (
            part.unflatten(1, (HEADS, -1)).transpose(0, 1) for part in self.projections(self.norm1(x)).chunk(3, dim=1)
        )
        if cache is not None:
            key, value = torch.cat([cache[0], key], dim=1), torch.cat([cache[1], value], dim=1)
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=cache is None)
        x = x + self.output(attended.transpose(0, 1).flatten(1))
        return x + self.feed_forward(self.norm2(x)), (key, value)


@torch.inference_mode()
def serving(iterations):
    chance = random.Random(0)
    layers = nn.ModuleList(Layer() for _ in range(LAYERS)).cuda().eval()
    requests = []
    for _ in range(iterations):
        if len(requests) < MOST_REQUESTS and chance.random() < 0.5:
            requests.append([chance.randint(5, 80), chance.randint(16, 1024), [None] * LAYERS])
        for request in requests:
            _, prompt, caches = request
            x = torch.randn(prompt if caches[0] is None else 1, WIDTH, device="cuda")
            for index, layer in enumerate(layers):
                x, caches[index] = layer(x, caches[index])
            request[0] -= 1
        requests = [request for request in requests if request[0] > 0]


if __name__ == "__main__":
    measure.main(serving, iterations=100)
