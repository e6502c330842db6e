import torch
from torch import nn


class SuperResolution(nn.Module):
    def __init__(self, width=64, scale=4):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, width, 3, padding=1), nn.PReLU(),
            nn.Conv2d(width, width, 3, padding=1), nn.PReLU(),
        )
        self.upscale = nn.Sequential(nn.Conv2d(width, width * scale * scale, 3, padding=1), nn.PixelShuffle(scale))
        self.final = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, low):
        return self.final(self.upscale(self.features(low)))


def train(model, optimizer, batches, batch_size=16, size=48):
    model.train()
    for _ in range(batches):
        low = torch.rand(batch_size, 3, size, size, device="cuda")
        high = torch.rand(batch_size, 3, 4 * size, 4 * size, device="cuda")
        loss = nn.functional.l1_loss(model(low), high)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def validate(model, batches, batch_size=32, size=128):
    model.eval()
    error = torch.zeros((), device="cuda")
    for _ in range(batches):
        low = torch.rand(batch_size, 3, size, size, device="cuda")
        high = torch.rand(batch_size, 3, 4 * size, 4 * size, device="cuda")
        error += nn.functional.mse_loss(model(low), high)
    return error / batches


if __name__ == "__main__":
    model = SuperResolution().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for epoch in range(2):
        train(model, optimizer, batches=12)
        validate(model, batches=4)
        print("epoch", epoch)
