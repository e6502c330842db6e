import torch
from torch import nn


class RetrievalRecall:
    def __init__(self, k=10):
        self.k = k
        self.queries, self.targets = [], []

    def update(self, queries, targets):
        self.queries.append(queries)
        self.targets.append(targets)

    def compute(self):
        queries = torch.cat(self.queries)
        targets = torch.cat(self.targets)
        hits = 0
        for chunk in queries.split(1024):
            ranked = (chunk @ targets.T).topk(self.k).indices
            hits = hits + (ranked == ranked[:, :1]).any(1).sum()
        self.queries.clear()
        self.targets.clear()
        return hits


def run_epoch(tower, optimizer, recall, batches):
    for _ in range(batches):
        text = torch.randn(1024, 1024, device="cuda")
        image = torch.randn(1024, 1024, device="cuda")
        a, b = tower(text), tower(image)
        loss = nn.functional.cross_entropy(a @ b.T, torch.arange(1024, device="cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        recall.update(a.detach(), b.detach())
    return recall.compute()


def main(epochs=3):
    tower = nn.Sequential(nn.Linear(1024, 4096), nn.GELU(), nn.Linear(4096, 2048)).cuda()
    optimizer = torch.optim.AdamW(tower.parameters(), lr=1e-4)
    recall = RetrievalRecall()
    for epoch in range(epochs):
        hits = run_epoch(tower, optimizer, recall, batches=12)
        print("epoch", epoch, "evaluated")


if __name__ == "__main__":
    main()
