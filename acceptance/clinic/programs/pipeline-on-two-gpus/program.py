import torch
from torch import nn


def stage(blocks, width):
    return nn.Sequential(*[
        nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width)) for _ in range(blocks)
    ])


class Pipeline(nn.Module):
    def __init__(self, width=2048):
        super().__init__()
        self.first = stage(3, width).to("cuda:0")
        self.second = stage(3, width).to("cuda:1")
        self.head = nn.Linear(width, 32000).to("cuda:1")

    def forward(self, x, micro_batches=4):
        outputs = []
        for part in x.chunk(micro_batches):
            hidden = self.first(part.to("cuda:0"))
            outputs.append(self.head(self.second(hidden.to("cuda:1"))))
        return torch.cat(outputs)


def train(steps):
    model = Pipeline()
    optimizer = torch.optim.Adagrad(model.parameters(), lr=1e-3)
    for _ in range(steps):
        x, y = torch.randn(4096, 2048), torch.randint(0, 32000, (4096,))
        loss = nn.functional.cross_entropy(model(x), y.to("cuda:1"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        usage = [torch.cuda.memory_allocated(gpu) >> 20 for gpu in range(2)]
        print("allocated MiB:", usage)


if __name__ == "__main__":
    train(steps=4)
