import torch
from torch import nn


class PairScorer(nn.Module):
    def __init__(self, items=20000, dim=256):
        super().__init__()
        self.items = nn.Embedding(items, dim)
        self.tower = nn.Sequential(nn.Linear(dim, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, dim))

    def forward(self, query, item):
        return (self.tower(self.items(query)) * self.tower(self.items(item))).sum(-1)


def run_epoch(model, optimizer, batches, batch_size=4096):
    margin = 0.2
    total = torch.zeros((), device="cuda")
    for batch in range(batches):
        query = torch.randint(0, 20000, (batch_size,), device="cuda")
        clicked = torch.randint(0, 20000, (batch_size,), device="cuda")
        skipped = torch.randint(0, 20000, (batch_size,), device="cuda")
        gap = margin - model(query, clicked) + model(query, skipped)
        total = total + gap.clamp(min=0).mean()
    optimizer.zero_grad()
    total.div(batches).backward()
    optimizer.step()
    return float(total)


def main():
    model = PairScorer().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for epoch in range(2):
        loss = run_epoch(model, optimizer, batches=24)
        print(f"epoch {epoch} done")


main()
