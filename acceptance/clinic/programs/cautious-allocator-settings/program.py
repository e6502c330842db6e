import torch
from torch import nn


class Unet(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.down = nn.ModuleList(nn.Conv2d(3 if i == 0 else width, width, 3, stride=2, padding=1) for i in range(3))
        self.up = nn.ModuleList(nn.ConvTranspose2d(width, width, 2, stride=2) for _ in range(3))
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x):
        skips = []
        for conv in self.down:
            x = torch.relu(conv(x))
            skips.append(x)
        for conv in self.up:
            x = torch.relu(conv(x + skips.pop()))
        return self.out(x)


def train(steps):
    model = Unet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    sizes = [256, 320, 384, 448, 512]
    for step in range(steps):
        size = sizes[step % len(sizes)]
        images = torch.rand(8, 3, size, size).cuda()
        loss = (model(images) - images).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    stats = torch.cuda.memory_stats()
    print("retries:", stats["num_alloc_retries"], "out of memory:", stats["num_ooms"])


if __name__ == "__main__":
    train(steps=25)
