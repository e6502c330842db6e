import torch
from torch import nn
import torch.nn.functional as F


class Generator(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.head = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Conv2d(width, width, 3, padding=1) for _ in range(4))
        self.tail = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, low):
        x = self.head(low)
        for conv in self.body:
            x = x + F.relu(conv(x))
        return self.tail(x)


def total_variation(image):
    return (image[..., 1:] - image[..., :-1]).abs().mean() + (image[..., 1:, :] - image[..., :-1, :]).abs().mean()


def train(steps=60, batch=16, size=224):
    device = torch.device("cuda")
    model = Generator().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    history = {"pixel": [], "tv": []}
    for step in range(steps):
        noisy = torch.rand(batch, 3, size, size, device=device)
        clean = torch.rand(batch, 3, size, size, device=device)
        restored = model(noisy)
        pixel_loss = F.l1_loss(restored, clean)
        tv = total_variation(restored)
        optimizer.zero_grad()
        pixel_loss.backward()
        optimizer.step()
        history["pixel"].append(pixel_loss.item())
        history["tv"].append(tv)
        if step % 10 == 0:
            print("step", step)
    return history


if __name__ == "__main__":
    train()
