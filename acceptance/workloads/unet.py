"""Train a U-Net for diffusion with Adam: residual blocks with time embeddings, attention at the lowest resolutions, skip connections."""

import torch
from torch import nn
from torch.nn import functional as F

import measure

BATCH = 8
RESOLUTION = 64
WIDTHS = [64, 128, 256, 256]


class Residual(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(8, inputs), nn.GroupNorm(8, outputs)
        self.first = nn.Conv2d(inputs, outputs, 3, padding=1)
        self.second = nn.Conv2d(outputs, outputs, 3, padding=1)
        self.time = nn.Linear(256, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, time):
        hidden = self.first(F.silu(self.norm1(x))) + self.time(F.silu(time))[:, :, None, None]
        return self.second(F.silu(self.norm2(hidden))) + self.skip(x)


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.GroupNorm(8, width)
        self.projections, self.output = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        flat = self.norm(x).flatten(2).transpose(1, 2)
        query, key, value = (
            part.unflatten(2, (4, -1)).transpose(1, 2) for part in self.projections(flat).chunk(3, dim=2)
        )
        attended = F.scaled_dot_product_attention(query, key, value).transpose(1, 2).flatten(2)
        return x + self.output(attended).transpose(1, 2).reshape(x.shape)


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Sequential(nn.Linear(64, 256), nn.SiLU(), nn.Linear(256, 256))
        self.input, self.output = nn.Conv2d(3, WIDTHS[0], 3, padding=1), nn.Conv2d(WIDTHS[0], 3, 3, padding=1)
        self.down, self.up, self.attention = nn.ModuleList(), nn.ModuleList(), nn.ModuleDict()
        for level, (above, width) in enumerate(zip(WIDTHS[:1] + WIDTHS, WIDTHS)):
            self.down.append(nn.ModuleList([Residual(above, width), Residual(width, width)]))
            self.up.insert(0, nn.ModuleList([Residual(2 * width, width), Residual(width, above)]))
            if level >= 2:
                self.attention[str(level)] = Attention(width)
        self.middle = Residual(WIDTHS[-1], WIDTHS[-1])

    def forward(self, x, time):
        frequencies = torch.exp(-torch.arange(32, device=x.device) / 4)
        angles = time[:, None] * frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], dim=1))
        x, skips = self.input(x), []
        for level, blocks in enumerate(self.down):
            for block in blocks:
                x = block(x, time)
            if str(level) in self.attention:
                x = self.attention[str(level)](x)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, time)
        for first, second in self.up:
            x = torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], dim=1)
            x = second(first(x, time), time)
        return self.output(x)


def unet(iterations):
    # cuDNN's workspaces depend on the GPU.
    torch.backends.cudnn.enabled = False
    model = UNet().cuda()
    optimizer = torch.optim.Adam(model.parameters())
    for _ in range(iterations):
        images = torch.randn(BATCH, 3, RESOLUTION, RESOLUTION, device="cuda")
        noise, time = torch.randn_like(images), torch.rand(BATCH, device="cuda")
        F.mse_loss(model(images + noise, time), noise).backward()
        optimizer.step()
        optimizer.zero_grad()


if __name__ == "__main__":
    measure.main(unet, iterations=4)
