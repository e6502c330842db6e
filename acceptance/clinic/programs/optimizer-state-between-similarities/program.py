import torch
from torch import nn
from torch.nn import functional as F


class Projector(nn.Module):
    def __init__(self, width=4096, depth=12):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(depth))
        self.out = nn.Linear(width, 256, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = F.relu(layer(x), inplace=True)
        return F.normalize(self.out(x), dim=-1)


def contrastive_loss(left, right, temperature=0.07):
    similarity = left @ right.T / temperature
    return F.cross_entropy(similarity, torch.arange(len(left), device="cuda"))


def train(steps, pairs):
    model = Projector().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    for step in range(steps):
        left, right = torch.randn(2, pairs, 4096).cuda()
        loss = contrastive_loss(model(left), model(right))
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step", step, "peak", torch.cuda.max_memory_allocated() >> 20, "MiB")


if __name__ == "__main__":
    train(steps=4, pairs=14336)
