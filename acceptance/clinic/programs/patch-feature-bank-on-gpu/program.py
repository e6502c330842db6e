import torch
from torch import nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, stride=4, padding=3), nn.BatchNorm2d(64), nn.ReLU())
        self.stage1 = nn.Sequential(nn.Conv2d(64, 256, 3, stride=2, padding=1), nn.BatchNorm2d(256), nn.ReLU())
        self.stage2 = nn.Sequential(nn.Conv2d(256, 512, 3, stride=2, padding=1), nn.BatchNorm2d(512), nn.ReLU())

    def forward(self, x):
        mid = self.stage1(self.stem(x))
        deep = F.interpolate(self.stage2(mid), size=mid.shape[-2:], mode="bilinear")
        return torch.cat([mid, deep], dim=1)


def collect_features(backbone, batches):
    bank = []
    with torch.no_grad():
        for _ in range(batches):
            images = torch.rand(16, 3, 256, 256, device="cuda")
            features = backbone(images)
            bank.append(features.permute(0, 2, 3, 1).reshape(-1, features.size(1)))
    return torch.cat(bank)


def subsample(bank, fraction=0.05):
    keep = torch.randperm(bank.size(0))[: int(fraction * bank.size(0))]
    return bank[keep.to(bank.device)]


if __name__ == "__main__":
    backbone = Backbone().cuda().eval()
    bank = collect_features(backbone, batches=50)
    coreset = subsample(bank)
    del bank
    print("memory bank", tuple(coreset.shape))
