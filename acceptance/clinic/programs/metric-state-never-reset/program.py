import torch
from torch import nn


class AveragePrecision(nn.Module):
    """Multi-label average precision over everything seen since the last reset."""

    def __init__(self):
        super().__init__()
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, scores, labels):
        self.scores.append(scores)
        self.labels.append(labels)

    def compute(self):
        scores, labels = torch.cat(self.scores), torch.cat(self.labels)
        order = scores.argsort(dim=0, descending=True)
        hits = labels.gather(0, order).cumsum(0)
        return (hits / torch.arange(1, len(hits) + 1, device=hits.device)[:, None]).mean()


def train(model, optimizer, metric, epochs=8, batches=6, tags=3000):
    for epoch in range(epochs):
        for _ in range(batches):
            audio = torch.randn(512, 4096, device="cuda")
            labels = torch.zeros(512, tags, device="cuda")
            logits = model(audio)
            loss = nn.functional.binary_cross_entropy_with_logits(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            metric.update(logits.detach().sigmoid(), labels)
        value = metric.compute()
        print(f"epoch {epoch} evaluated")


if __name__ == "__main__":
    tagger = nn.Sequential(nn.Linear(4096, 2048), nn.ReLU(), nn.Linear(2048, 3000)).cuda()
    metric = AveragePrecision().cuda()
    train(tagger, torch.optim.AdamW(tagger.parameters()), metric)
