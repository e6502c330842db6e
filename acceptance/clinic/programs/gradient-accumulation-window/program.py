import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self, width=4096, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.head = nn.Linear(width, 1)

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.silu(layer(x))
        return self.head(x)


def train(updates, accumulate):
    model = Regressor().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    history = []
    for _ in range(updates):
        total = torch.zeros((), device="cuda")
        for _ in range(accumulate):
            x, y = torch.randn(4096, 4096).cuda(), torch.randn(4096, 1).cuda()
            loss = nn.functional.mse_loss(model(x), y) / accumulate
            loss.backward()
            total += loss.detach()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        history.append(total.item())
    return history


if __name__ == "__main__":
    print(len(train(updates=6, accumulate=8)), "updates")
