import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim=3072, expansion=4):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, expansion * dim)
        self.down = nn.Linear(expansion * dim, dim)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def fine_tune(model, steps, batch=32):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
    for step in range(steps):
        vectors = torch.randn(batch, 3072, device="cuda")
        target = torch.randn(batch, 3072, device="cuda")
        loss = nn.functional.smooth_l1_loss(model(vectors), target)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", step)


def main():
    model = nn.Sequential(*[Mixer() for _ in range(5)]).cuda()
    weights = sum(p.numel() for p in model.parameters())
    print(f"{weights / 1e6:.0f} million weights, {weights * 4 / 2**30:.1f} GiB")
    fine_tune(model, steps=4)


if __name__ == "__main__":
    main()
