import argparse
from collections import deque

import torch
from torch import nn


class FeatureNet(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.stem = nn.Conv2d(3, width, 7, stride=4, padding=3)
        self.blocks = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))

    def forward(self, x):
        x = torch.relu(self.stem(x))
        for block in self.blocks:
            x = x + torch.relu(block(x))
        return x


def drift_score(window):
    first, last = window[0].mean(dim=0), window[-1].mean(dim=0)
    return (first - last).norm()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--window", type=int, default=34)
    args = parser.parse_args()

    model = FeatureNet().cuda().eval()
    recent = deque(maxlen=args.window)
    for _ in range(args.batches):
        images = torch.rand(8, 3, 224, 224).cuda()
        with torch.no_grad():
            features = model(images)
        recent.append(features)
        drift_score(recent)
    print("batches:", args.batches, "window:", len(recent))


if __name__ == "__main__":
    main()
