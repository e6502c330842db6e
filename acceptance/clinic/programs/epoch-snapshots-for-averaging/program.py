import copy

import torch
from torch import nn


def build_model(classes=100):
    layers, channels = [], 3
    for width in (256, 1024, 2048):
        layers += [nn.Conv2d(channels, width, 3, stride=2, padding=1), nn.BatchNorm2d(width), nn.ReLU()]
        channels = width
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, 4096), nn.ReLU(), nn.Linear(4096, classes))


def train_epoch(model, optimizer, batches=2):
    model.train()
    for _ in range(batches):
        images = torch.randn(64, 3, 64, 64, device="cuda")
        labels = torch.randint(0, 100, (64,), device="cuda")
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def average(snapshots, last=5):
    chosen = snapshots[-last:]
    return {name: torch.stack([s[name].float() for s in chosen]).mean(0) for name in chosen[0]}


def main(epochs=32):
    model = build_model().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, epochs)
    snapshots = []
    for epoch in range(epochs):
        train_epoch(model, optimizer)
        schedule.step()
        snapshots.append(copy.deepcopy(model.state_dict()))
        print(f"epoch {epoch}: lr {schedule.get_last_lr()[0]:.4f}")
    model.load_state_dict(average(snapshots))


if __name__ == "__main__":
    main()
