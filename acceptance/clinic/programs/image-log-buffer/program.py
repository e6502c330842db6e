import torch
from torch import nn


class ImageLogger:
    def __init__(self, every=2):
        self.every = every
        self.pending = []

    def add(self, step, name, images):
        if step % self.every == 0:
            self.pending.append((step, name, images.detach().clamp(0, 1)))

    def flush(self):
        for step, name, images in self.pending:
            columns = [image.cpu() for image in images[:4]]
        self.pending.clear()


class AutoEncoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encode = nn.Sequential(nn.Conv2d(3, width, 4, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 4, 2, 1))
        self.decode = nn.Sequential(
            nn.ConvTranspose2d(2 * width, width, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1)
        )

    def forward(self, images):
        return self.decode(self.encode(images))


def main(steps=60):
    model = AutoEncoder().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    logger = ImageLogger()
    for step in range(steps):
        images = torch.rand(32, 3, 256, 256, device="cuda")
        reconstruction = model(images)
        loss = nn.functional.mse_loss(reconstruction, images)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        logger.add(step, "input", images)
        logger.add(step, "reconstruction", reconstruction)
    logger.flush()


main()
