"""Train the smallest GPT-2 with AdamW on sequences whose length varies from step to step."""

import math
import os
import random

import torch
from torch import nn
from torch.nn import functional as F

import measure

VOCABULARY = 50257
POSITIONS = 1024
LAYERS = 12
HEADS = 12
WIDTH = 768
DROPOUT = 0.1

BATCH = int(os.environ.get("BATCH", "8"))
# LENGTHS=512 makes all sequences equally long.
LENGTHS = [int(length) for length in os.environ.get("LENGTHS", "128,256,384,512").split(",")]


class Affine(nn.Module):
    """A linear layer whose weight has the shape (input, output)."""

    def __init__(self, features_in, features_out):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(features_in, features_out))
        self.bias = nn.Parameter(torch.zeros(features_out))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, x):
        flat = torch.addmm(self.bias, x.view(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


def gelu(x):
    """GELU with the tanh formula of GPT-2: every operation makes a tensor."""
    return 0.5 * x * (1.0 + torch.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * torch.pow(x, 3.0))))


class KeyValueCache:
    """Keys and values of the tokens so far: a pair per layer. A training step fills it once."""

    def __init__(self):
        self.layers = []

    def length(self):
        return self.layers[0][0].size(-2) if self.layers else 0

    def add(self, key, value):
        nothing = torch.tensor([], dtype=key.dtype, device=key.device)
        pair = torch.cat([nothing, key], dim=-2), torch.cat([nothing, value], dim=-2)
        self.layers.append(pair)
        return pair


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query_key_value = Affine(WIDTH, 3 * WIDTH)
        self.projection = Affine(WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x, cache):
        query, key, value = (
            part.view(*x.shape[:-1], HEADS, -1).transpose(1, 2)
            for part in self.query_key_value(x).split(WIDTH, dim=2)
        )
        key, value = cache.add(key, value)
        x = F.scaled_dot_product_attention(query, key, value, dropout_p=DROPOUT, is_causal=True)
        x = x.transpose(1, 2).contiguous()
        x = self.projection(x.flatten(2))
        return self.dropout(x)


class FeedForward(nn.Module):
    def __init__(self):
        super().__init__()
        self.expansion = Affine(WIDTH, 4 * WIDTH)
        self.projection = Affine(4 * WIDTH, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)

    def forward(self, x):
        x = self.expansion(x)
        x = gelu(x)
        x = self.projection(x)
        return self.dropout(x)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.norm2 = nn.LayerNorm(WIDTH)
        self.feed_forward = FeedForward()

    def forward(self, x, cache):
        attended = self.attention(self.norm1(x), cache)
        x = attended + x
        fed = self.feed_forward(self.norm2(x))
        return x + fed


class Body(nn.Module):
    """The model without the layer that scores the next token."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(POSITIONS, WIDTH)
        self.dropout = nn.Dropout(DROPOUT)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, ids, cache):
        tokens = self.tokens(ids)
        positions = torch.arange(ids.size(1), device=ids.device) + cache.length()
        positions = self.positions(positions.unsqueeze(0))
        x = tokens + positions
        x = self.dropout(x)
        for block in self.blocks:
            x = block(x, cache)
        return self.norm(x)


class Gpt2(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = Body()
        self.scores = nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.scores.weight = self.body.tokens.weight

    def forward(self, ids):
        """Return the loss, the scores and the cache. The caller may use or drop the last two."""
        cache = KeyValueCache()
        scores = self.scores(self.body(ids, cache))
        return next_token_loss(scores, ids), scores, cache


def next_token_loss(scores, ids):
    padded = F.pad(ids, (0, 1), value=-100)
    expected = padded[..., 1:].contiguous()
    return F.cross_entropy(scores.view(-1, VOCABULARY), expected.view(-1))


def gpt2(iterations):
    chance = random.Random(0)
    model = Gpt2().cuda()
    optimizer = torch.optim.AdamW(model.parameters())
    for _ in range(iterations):
        ids = torch.randint(VOCABULARY, (BATCH, chance.choice(LENGTHS)), device="cuda")
        loss = model(ids)[0]
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(gpt2, iterations=4)
