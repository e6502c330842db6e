import torch
from torch import nn


class ReplayBuffer:
    def __init__(self, capacity):
        self.capacity = capacity
        self.items = []
        self.cursor = 0

    def add(self, rollout):
        if len(self.items) < self.capacity:
            self.items.append(rollout)
        else:
            self.items[self.cursor] = rollout
        self.cursor = (self.cursor + 1) % self.capacity

    def sample(self, count, generator):
        picks = torch.randint(0, len(self.items), (count,), generator=generator).tolist()
        return torch.cat([self.items[i]["frames"][:16] for i in picks])


def make_agent():
    return nn.Sequential(
        nn.Conv2d(4, 64, 8, stride=4), nn.ReLU(), nn.Conv2d(64, 128, 4, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(128 * 9 * 9, 1024), nn.ReLU(), nn.Linear(1024, 18),
    ).cuda()


def train(iterations, capacity):
    agent, buffer = make_agent(), ReplayBuffer(capacity)
    optimizer = torch.optim.SGD(agent.parameters(), lr=1e-4)
    generator = torch.Generator().manual_seed(1)
    for _ in range(iterations):
        frames = torch.rand(256, 4, 84, 84).cuda()
        with torch.no_grad():
            actions = agent(frames).argmax(dim=1)
        buffer.add({"frames": frames, "actions": actions})
        q_values = agent(buffer.sample(8, generator))
        loss = (q_values.max(dim=1).values - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


if __name__ == "__main__":
    train(iterations=50, capacity=42)
