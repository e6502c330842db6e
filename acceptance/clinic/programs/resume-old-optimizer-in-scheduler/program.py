import copy

import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR


class Session:
    def __init__(self, model):
        self.model = model
        self.schedules = []

    def start_phase(self, trainable, state=None):
        for parameter in self.model.parameters():
            parameter.requires_grad_(False)
        for parameter in trainable.parameters():
            parameter.requires_grad_(True)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-4)
        if state is not None:
            self.optimizer.load_state_dict(state)
        self.schedules.append(StepLR(self.optimizer, step_size=10))

    def fit(self, steps):
        for _ in range(steps):
            x = torch.randn(128, 4096, device="cuda")
            loss = (self.model(x) - x).abs().mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.schedules[-1].step()

    def state(self):
        return copy.deepcopy(self.optimizer.state_dict())


def main(phases=8):
    model = nn.Sequential(*[nn.Sequential(nn.Linear(4096, 4096), nn.ReLU()) for _ in range(4)]).cuda()
    session = Session(model)
    session.start_phase(model)
    session.fit(3)
    for phase in range(phases):
        session.start_phase(model if phase % 2 else model[-1], session.state())
        session.fit(3)
        print("phase", phase)


if __name__ == "__main__":
    main()
