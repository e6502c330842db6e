import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, inputs, outputs, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1, stride, bias=False)

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(y))
        return torch.relu(y + self.skip(x))


def build(classes=200):
    return nn.Sequential(
        nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1),
        Residual(64, 64), Residual(64, 128, 2), Residual(128, 256, 2), Residual(256, 512, 2),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, classes),
    )


def train(model, batch_size, iterations):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for iteration in range(iterations):
        images = torch.randn(batch_size, 3, 224, 224, device="cuda")
        labels = torch.randint(0, 200, (batch_size,), device="cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained", iterations, "iterations")


if __name__ == "__main__":
    train(build().cuda(), batch_size=288, iterations=5)
