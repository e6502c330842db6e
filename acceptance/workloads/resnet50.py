"""Train ResNet-50 with momentum, without cuDNN, in the annotated regions `forward`, `backward` and `optimizer`."""

import torch
from torch import nn
from torch.autograd.profiler import record_function

import measure

BATCH = 32
CLASSES = 1000


class Bottleneck(nn.Module):
    """Three convolutions and a shortcut."""

    def __init__(self, channels_in, channels, stride):
        super().__init__()
        channels_out = 4 * channels
        self.conv1 = nn.Conv2d(channels_in, channels, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv3 = nn.Conv2d(channels, channels_out, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(channels_out)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = None
        if stride != 1 or channels_in != channels_out:
            self.shortcut = nn.Sequential(
                nn.Conv2d(channels_in, channels_out, 1, stride, bias=False),
                nn.BatchNorm2d(channels_out),
            )

    def forward(self, x):
        shortcut = x
        out = self.conv1(x)
        out = self.bn1(out)
        out = self.relu(out)
        out = self.conv2(out)
        out = self.bn2(out)
        out = self.relu(out)
        out = self.conv3(out)
        out = self.bn3(out)
        if self.shortcut is not None:
            shortcut = self.shortcut(x)
        out += shortcut
        return self.relu(out)


def stage(channels_in, channels, blocks, stride):
    first = Bottleneck(channels_in, channels, stride)
    return nn.Sequential(first, *[Bottleneck(4 * channels, channels, 1) for _ in range(blocks - 1)])


class ResNet50(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        self.relu = nn.ReLU(inplace=True)
        self.maxpool = nn.MaxPool2d(3, stride=2, padding=1)
        self.stage1 = stage(64, 64, blocks=3, stride=1)
        self.stage2 = stage(256, 128, blocks=4, stride=2)
        self.stage3 = stage(512, 256, blocks=6, stride=2)
        self.stage4 = stage(1024, 512, blocks=3, stride=2)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.classes = nn.Linear(2048, CLASSES)

    def forward(self, x):
        # Each output replaces its input, so only tensors that the backward pass needs stay alive.
        x = self.conv1(x)
        x = self.bn1(x)
        x = self.relu(x)
        x = self.maxpool(x)
        x = self.stage1(x)
        x = self.stage2(x)
        x = self.stage3(x)
        x = self.stage4(x)
        x = self.pool(x)
        x = torch.flatten(x, 1)
        return self.classes(x)


def resnet50(iterations):
    torch.backends.cudnn.enabled = False
    model = ResNet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    for _ in range(iterations):
        images = torch.randn(BATCH, 3, 224, 224, device="cuda")
        labels = torch.randint(CLASSES, (BATCH,), device="cuda")
        with record_function("forward"):
            loss = nn.functional.cross_entropy(model(images), labels)
        with record_function("backward"):
            loss.backward()
        with record_function("optimizer"):
            optimizer.step()
            optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(resnet50, iterations=2)
