import torch
from torch import nn


class StreamingDenoiser(nn.Module):
    """Causal enhancement of audio frames with a recurrent state."""

    def __init__(self, bins=257, hidden=768):
        super().__init__()
        self.inp = nn.Linear(bins, hidden)
        self.cell = nn.LSTMCell(hidden, hidden)
        self.mask = nn.Linear(hidden, bins)
        self.hidden = hidden
        self.state = None

    def reset(self, channels):
        zero = torch.zeros(channels, self.hidden, device=self.inp.weight.device)
        self.state = (zero, zero.clone())

    def forward(self, frame):
        x = torch.relu(self.inp(frame))
        h, c = self.cell(x, self.state)
        self.state = (h, c)
        return frame * torch.sigmoid(self.mask(h))


def enhance(model, frames, channels=512):
    model.reset(channels)
    energy = 0.0
    for index in range(frames):
        spectrum = torch.rand(channels, 257, device="cuda")
        clean = model(spectrum)
        energy += clean.detach().square().mean().item()
        if index % 50 == 49:
            print(f"{index + 1} frames, energy {energy:.1f}")
    return energy


def main():
    model = StreamingDenoiser().cuda().eval()
    enhance(model, frames=120)


if __name__ == "__main__":
    main()
