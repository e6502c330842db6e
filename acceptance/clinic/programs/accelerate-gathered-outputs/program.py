import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class DepthNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
            nn.Conv2d(width, 64, 1),
        )

    def forward(self, image):
        return self.layers(image)


def evaluate(accelerator, model, loader):
    model.eval()
    bins, depths = [], []
    for image, depth in loader:
        with torch.no_grad():
            logits = model(image)
        logits, depth = accelerator.gather_for_metrics((logits, depth))
        bins.append(logits)
        depths.append(depth)
    expected = [b.softmax(1).mean(1) for b in bins]
    return sum((e - d[:, 0]).abs().mean() for e, d in zip(expected, depths)) / len(depths)


def main():
    accelerator = Accelerator(mixed_precision="no")
    images = torch.zeros(240, 1, 128, 160)
    loader = DataLoader(TensorDataset(images, images.clone()), batch_size=8)
    model, loader = accelerator.prepare(DepthNet(), loader)
    error = evaluate(accelerator, model, loader)
    accelerator.print("evaluated", len(loader), "batches")


main()
