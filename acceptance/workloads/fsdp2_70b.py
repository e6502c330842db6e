"""Train a transformer of 70 billion parameters, sharded over all ranks by FSDP2; print one rank's memory use as a JSON object.

    vramscope phantom run --world-size 64 --rank 3 -- python fsdp2_70b.py

The shapes are those of Llama 3 70B. The model is built on the meta device, so no rank ever holds all of it.
"""

import argparse
import json
import os
import resource

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

LAYERS = 80
WIDTH = 8192
HIDDEN = 28672
HEADS = 64
KEY_VALUE_HEADS = 8
HEAD = WIDTH // HEADS
VOCABULARY = 128256


def rotate(x, angles):
    """Rotate each pair of a head's features by the angle of its position."""
    pairs = torch.view_as_complex(x.float().unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * angles).flatten(-2).type_as(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.query = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.key = nn.Linear(WIDTH, KEY_VALUE_HEADS * HEAD, bias=False)
        self.value = nn.Linear(WIDTH, KEY_VALUE_HEADS * HEAD, bias=False)
        self.output = nn.Linear(HEADS * HEAD, WIDTH, bias=False)

    def forward(self, x, angles):
        query = rotate(self.query(x).unflatten(-1, (HEADS, HEAD)).transpose(1, 2), angles)
        key = rotate(self.key(x).unflatten(-1, (KEY_VALUE_HEADS, HEAD)).transpose(1, 2), angles)
        value = self.value(x).unflatten(-1, (KEY_VALUE_HEADS, HEAD)).transpose(1, 2)
        x = F.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)
        return self.output(x.transpose(1, 2).flatten(2))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.feed_norm = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.attention = Attention()
        self.gate = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.up = nn.Linear(WIDTH, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, WIDTH, bias=False)

    def forward(self, x, angles):
        x = x + self.attention(self.attention_norm(x), angles)
        normed = self.feed_norm(x)
        return x + self.down(F.silu(self.gate(normed)) * self.up(normed))


class Transformer(nn.Module):
    def __init__(self, layers):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, WIDTH)
        self.blocks = nn.ModuleList(Block() for _ in range(layers))
        self.norm = nn.RMSNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens, angles):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, angles, use_reentrant=False)
        return self.head(self.norm(x))


def train(layers, steps, length):
    """Train on this rank. Returns the number of parameters on all ranks."""
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    with torch.device("meta"):
        model = Transformer(layers)
    parameters = sum(p.numel() for p in model.parameters())
    precision = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.blocks:
        fully_shard(block, mp_policy=precision)
    fully_shard(model, mp_policy=precision)
    model.to_empty(device=device)
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters())

    frequencies = 500000 ** (-torch.arange(0, HEAD, 2, device=device) / HEAD)
    positions = torch.arange(length, device=device)
    angles = torch.polar(torch.ones(()).to(device), torch.outer(positions, frequencies))
    for _ in range(steps):
        tokens = torch.randint(VOCABULARY, (1, length), device=device)
        loss = F.cross_entropy(model(tokens, angles).flatten(0, 1).float(), tokens.flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    return parameters


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--length", type=int, default=4096)
    arguments = parser.parse_args()

    parameters = train(LAYERS, arguments.steps, arguments.length)
    said = {
        "parameters": parameters,
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
        # The system counts in units of 1024 bytes.
        "most_host_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }
    print(json.dumps(said), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
