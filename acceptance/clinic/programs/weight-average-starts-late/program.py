import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, SWALR


class Mixer(nn.Module):
    def __init__(self, width=3072, depth=3, classes=100):
        super().__init__()
        self.stem = nn.Linear(1024, width)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(depth)
        )
        self.head = nn.Linear(width, classes)

    def forward(self, x):
        x = self.stem(x)
        for block in self.blocks:
            x = x + block(x)
        return self.head(x)


def train(epochs, steps, average_from):
    model = Mixer().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    average, schedule = None, None
    for epoch in range(epochs):
        for _ in range(steps):
            x, y = torch.randn(1024, 1024).cuda(), torch.randint(0, 100, (1024,)).cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if epoch >= average_from:
            if average is None:
                average = AveragedModel(model)
                schedule = SWALR(optimizer, swa_lr=0.05)
            average.update_parameters(model)
            schedule.step()
    return average


if __name__ == "__main__":
    train(epochs=10, steps=2, average_from=7)
