import torch
from torch import nn

Out = {}


class Shell:
    def __init__(self):
        self.count = 0
        self.variables = {}

    def run(self, cell):
        self.count += 1
        value = cell(self.variables)
        if value is not None:
            Out[self.count] = value
        print(f"[{self.count}] done")


class Trainer:
    def __init__(self, layers, width=4096):
        self.model = nn.Sequential(*[nn.Sequential(nn.Linear(width, width), nn.SiLU()) for _ in range(layers)]).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)

    def fit(self, steps):
        for _ in range(steps):
            x = torch.randn(256, 4096, device="cuda")
            loss = (self.model(x) - x).square().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return self


def cell_build(variables):
    variables["trainer"] = Trainer(layers=4)


def cell_fit(variables):
    return variables["trainer"].fit(steps=4)


if __name__ == "__main__":
    shell = Shell()
    for attempt in range(6):
        shell.run(cell_build)
        shell.run(cell_fit)
