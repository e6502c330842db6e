import torch
from torch import nn


class UNetSmall(nn.Module):
    def __init__(self, classes=21, width=48):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.ReLU(inplace=True))
        self.down2 = nn.Sequential(nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.ReLU(inplace=True))
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.classify = nn.Conv2d(2 * width, classes, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.up(self.down2(a))
        return self.classify(torch.cat([a, b], dim=1))


def pixel_accuracy(predictions, targets):
    correct = sum((p.argmax(1) == t).sum() for p, t in zip(predictions, targets))
    return correct / sum(t.numel() for t in targets)


@torch.no_grad()
def validate(model, batches):
    model.eval()
    predictions, targets = [], []
    for index in range(batches):
        images = torch.randn(4, 3, 384, 384, device="cuda")
        masks = torch.zeros(4, 384, 384, dtype=torch.long, device="cuda")
        logits = model(images)
        predictions.append(logits.softmax(dim=1))
        targets.append(masks)
    return pixel_accuracy(predictions, targets)


if __name__ == "__main__":
    net = UNetSmall().cuda()
    score = validate(net, batches=60)
    print("validation finished")
