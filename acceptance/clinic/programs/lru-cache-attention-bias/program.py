from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import nn

HEADS, DIM = 16, 1024


@lru_cache(maxsize=24)
def alibi_bias(length):
    slopes = torch.tensor([2 ** (-8 * (i + 1) / HEADS) for i in range(HEADS)], device="cuda")
    distance = torch.arange(length, device="cuda")[None] - torch.arange(length, device="cuda")[:, None]
    return (slopes[:, None, None] * -distance.abs()).half()


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM)
        self.out = nn.Linear(DIM, DIM)

    def forward(self, x):
        batch, length, _ = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-1, -2) / 8 + alibi_bias(length)
        return x + self.out((F.softmax(scores, -1) @ v).transpose(1, 2).reshape(batch, length, DIM))


@torch.inference_mode()
def serve(requests):
    model = nn.Sequential(*[Block() for _ in range(3)]).half().cuda()
    lengths = [512 + 32 * n for n in range(24)]
    for number in range(requests):
        fresh = number // 2
        length = lengths[fresh] if number % 2 == 0 and fresh < 24 else lengths[(number * 5) % min(24, fresh + 1)]
        prompt = torch.randn(1, length, DIM, dtype=torch.half).cuda()
        model(prompt)
    print(alibi_bias.cache_info())


if __name__ == "__main__":
    serve(requests=58)
