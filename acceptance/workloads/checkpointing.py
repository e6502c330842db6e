"""Train one of six models, with the modules checkpointed that CHECKPOINT names.

    CHECKPOINT=blocks.0,blocks.1 python acceptance/workloads/checkpointing.py MODEL

MODEL is one of gpt2, gpt2-xl, llama-1b, llama-8b, vit-l and unet.
"""

import functools
import os
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

STEPS = 3


class Norm(nn.Module):
    """RMSNorm in the data type of its input, as in Llama."""

    def __init__(self, width):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        wide = x.float()
        return self.weight * (wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-5)).to(x.dtype)


class Attention(nn.Module):
    def __init__(self, width, heads, groups, is_causal):
        super().__init__()
        self.heads, self.groups, self.is_causal = heads, groups, is_causal
        self.size = width // heads
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, groups * self.size, bias=False)
        self.value = nn.Linear(width, groups * self.size, bias=False)
        self.output = nn.Linear(width, width, bias=False)

    def forward(self, x):
        def split(part, count):
            return part.view(*x.shape[:2], count, self.size).transpose(1, 2)

        query = split(self.query(x), self.heads)
        key, value = split(self.key(x), self.groups), split(self.value(x), self.groups)
        if self.groups != self.heads:
            key, value = (part.repeat_interleave(self.heads // self.groups, 1) for part in (key, value))
        x = F.scaled_dot_product_attention(query, key, value, is_causal=self.is_causal)
        return self.output(x.transpose(1, 2).flatten(2))


class Gelu(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


class SwiGlu(nn.Module):
    def __init__(self, width, inner):
        super().__init__()
        self.gate = nn.Linear(width, inner, bias=False)
        self.up = nn.Linear(width, inner, bias=False)
        self.down = nn.Linear(inner, width, bias=False)

    def forward(self, x):
        return self.down(F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, norm, attention, feed_forward):
        super().__init__()
        self.norm1, self.norm2 = norm(), norm()
        self.attention, self.feed_forward = attention(), feed_forward()

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """GPT-2 or a Llama, which predicts tokens."""

    def __init__(self, vocabulary, width, layers, block, norm):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, width)
        self.blocks = nn.ModuleList(block() for _ in range(layers))
        self.norm = norm()
        self.scores = nn.Linear(width, vocabulary, bias=False)

    def forward(self, ids):
        x = self.tokens(ids)
        for block in self.blocks:
            x = block(x)
        scores = self.scores(self.norm(x))
        return F.cross_entropy(scores[:, :-1].flatten(0, 1), ids[:, 1:].flatten())


class Vit(nn.Module):
    """A vision transformer of the size L, with patches of 16 by 16."""

    def __init__(self, width=1024, layers=24, classes=1000):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, stride=16)
        self.positions = nn.Parameter(torch.zeros(1, 196, width))
        norm = functools.partial(nn.LayerNorm, width)
        attention = functools.partial(Attention, width, 16, 16, False)
        self.blocks = nn.Sequential(*[Block(norm, attention, functools.partial(Gelu, width)) for _ in range(layers)])
        self.norm = norm()
        self.classes = nn.Linear(width, classes)

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        scores = self.classes(self.norm(self.blocks(x)).mean(1))
        return F.cross_entropy(scores, torch.zeros(len(images), dtype=torch.int64, device=images.device))


class Residual(nn.Module):
    def __init__(self, channels_in, channels):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(32, channels_in), nn.GroupNorm(32, channels)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, padding=1)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Conv2d(channels_in, channels, 1)

    def forward(self, x):
        inner = self.conv1(F.silu(self.norm1(x)))
        return self.shortcut(x) + self.conv2(F.silu(self.norm2(inner)))


class UNet(nn.Module):
    """Residual blocks at falling, then at rising resolutions. The outputs of the first half are inputs of the second."""

    def __init__(self, channels=(128, 256, 512, 768), repeats=1):
        super().__init__()
        self.first = nn.Conv2d(4, channels[0], 3, padding=1)
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        at, skipped = channels[0], []
        for level, width in enumerate(channels):
            for _ in range(repeats):
                self.down.append(Residual(at, width))
                skipped.append(width)
                at = width
        self.middle = nn.Sequential(Residual(at, at), Residual(at, at))
        for level, width in reversed(list(enumerate(channels))):
            for _ in range(repeats):
                self.up.append(Residual(at + skipped.pop(), width))
                at = width
        self.last = nn.Conv2d(at, 4, 3, padding=1)
        self.repeats = repeats

    def forward(self, noisy):
        x, skipped = self.first(noisy), []
        for i, block in enumerate(self.down):
            x = block(x)
            skipped.append(x)
            if (i + 1) % self.repeats == 0 and i + 1 < len(self.down):
                x = F.avg_pool2d(x, 2)
        x = self.middle(x)
        for i, block in enumerate(self.up):
            if i and i % self.repeats == 0:
                x = F.interpolate(x, scale_factor=2.0)
            x = block(torch.cat([x, skipped.pop()], 1))
        return (self.last(x) - noisy).square().mean()


def decoder(vocabulary, width, layers, heads, groups=None, inner=None):
    attention = functools.partial(Attention, width, heads, groups or heads, True)
    norm = functools.partial(Norm if inner else nn.LayerNorm, width)
    feed_forward = functools.partial(SwiGlu, width, inner) if inner else functools.partial(Gelu, width)
    return Decoder(vocabulary, width, layers, functools.partial(Block, norm, attention, feed_forward), norm)


def ids(batch, length, vocabulary):
    return torch.randint(vocabulary, (batch, length), device="cuda")


# The model, its input, and its data type.
MODELS = {
    "gpt2": (lambda: decoder(50257, 768, 12, 12), lambda: ids(16, 512, 50257), torch.float32),
    "gpt2-xl": (lambda: decoder(50257, 1600, 48, 25), lambda: ids(8, 512, 50257), torch.float32),
    "llama-1b": (lambda: decoder(128256, 2048, 16, 32, 8, 8192), lambda: ids(8, 1024, 128256), torch.bfloat16),
    "llama-8b": (lambda: decoder(128256, 4096, 32, 32, 8, 14336), lambda: ids(8, 2048, 128256), torch.bfloat16),
    "vit-l": (Vit, lambda: torch.randn(64, 3, 224, 224, device="cuda"), torch.float32),
    "unet": (UNet, lambda: torch.randn(64, 4, 64, 64, device="cuda"), torch.float32),
}


def build(name):
    """The model, a function that makes its input, and its optimizer."""
    create, batch, dtype = MODELS[name]
    with torch.device("cuda"):
        torch.set_default_dtype(dtype)
        model = create()
    return model, batch, torch.optim.AdamW(model.parameters())


def step(model, batch, optimizer):
    model(batch()).backward()
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    model, batch, optimizer = build(sys.argv[1])
    for path in filter(None, os.environ.get("CHECKPOINT", "").split(",")):
        module = model.get_submodule(path)
        module.forward = functools.partial(checkpoint, module.forward, use_reentrant=False)
    for _ in range(STEPS):
        step(model, batch, optimizer)
