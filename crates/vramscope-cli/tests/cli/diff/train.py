"""A small language model, trained for some steps; each option is one known change."""

import argparse

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x):
        y = self.norm(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.down(torch.relu(self.up(x)))


class Model(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.checkpoint = options.checkpoint
        self.embedding = nn.Embedding(1000, options.width)
        self.blocks = nn.ModuleList(Block(options.width) for _ in range(options.layers))
        self.head = nn.Linear(options.width, 1000)

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.checkpoint else block(x)
        return self.head(x)


def train(options):
    model = Model(options).cuda()
    if options.bfloat16:
        model = model.bfloat16()
    optimizers = {"sgd": torch.optim.SGD, "adamw": torch.optim.AdamW, "adagrad": torch.optim.Adagrad}
    optimizer = optimizers[options.optimizer](model.parameters(), lr=0.1)
    kept = []
    for _ in range(options.steps):
        tokens = torch.zeros(options.batch, options.length, dtype=torch.long).cuda()
        logits = model(tokens)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens.flatten())
        loss.backward()
        if options.clip:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=not options.keep_gradients)
        if options.leak:
            kept.append(logits)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--optimizer", default="sgd")
    for change in ["checkpoint", "bfloat16", "clip", "keep-gradients", "leak", "tags"]:
        parser.add_argument(f"--{change}", action="store_true")
    parser.add_argument("--stacks", default="python")
    parser.add_argument("recording")
    options = parser.parse_args()
    if options.tags:
        import vramscope.torch

        with vramscope.torch.record(options.recording):
            train(options)
    else:
        torch.cuda.memory._record_memory_history(stacks=options.stacks)
        train(options)
        torch.cuda.memory._dump_snapshot(options.recording)


main()
