"""Eight ranks train a small language model with FSDP2; two of them differ from the others.

    vramscope phantom run --gpu a100-40gb --gpus 8 --record run.pickle -- torchrun --nproc-per-node 8 train.py

Rank 0 retains the logits of every step. Rank 5 gets longer texts than the others.
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard

WIDTH, HEADS, LAYERS, WORDS = 1024, 16, 4, 8192
BATCH, LENGTH, STEPS = 4, 512, 3


class Model(nn.Module):
    """A small transformer that predicts words."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(WORDS, WIDTH)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)
        )
        self.head = nn.Linear(WIDTH, WORDS, bias=False)

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        """Return the logits of each position."""
        hidden = self.words(text)
        for layer in self.layers:
            hidden = layer(hidden)
        return self.head(hidden)


def main() -> None:
    """Train a few steps on this rank."""
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    model = Model().cuda()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    length = LENGTH * 3 // 2 if rank == 5 else LENGTH
    kept = []
    for _ in range(STEPS):
        text = torch.zeros(BATCH, length, dtype=torch.long, device="cuda")
        logits = model(text)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            kept.append(logits.detach())
    dist.destroy_process_group()


main()
