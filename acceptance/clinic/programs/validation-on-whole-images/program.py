import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.inp = nn.Conv2d(3, width, 3, padding=1)
        self.mid = nn.Sequential(*[m for _ in range(3) for m in (nn.Conv2d(width, width, 3, padding=1), nn.ReLU())])
        self.out = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        return x - self.out(self.mid(self.inp(x)))


def psnr(prediction, target):
    return -10 * torch.log10((prediction - target).pow(2).mean() + 1e-8)


@torch.no_grad()
def validate(model, images):
    model.eval()
    scores = []
    for _ in range(images):
        clean = torch.rand(1, 3, 1080, 1920).cuda()
        scores.append(psnr(model(clean + 0.1 * torch.randn_like(clean)), clean).item())
    model.train()
    return sum(scores) / len(scores)


def train(epochs, steps=12):
    model = Denoiser().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
    for _ in range(epochs):
        for _ in range(steps):
            clean = torch.rand(16, 3, 96, 96).cuda()
            loss = (model(clean + 0.1 * torch.randn_like(clean)) - clean).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        validate(model, images=2)


if __name__ == "__main__":
    train(epochs=3)
