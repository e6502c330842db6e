import torch
from torch import nn


class Encoder(nn.Module):
    def __init__(self, layers=8, width=2560):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(layers))
        self.classifier = nn.Linear(width, 10, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return self.classifier(x)


def unfreeze(model, optimizer, count):
    group = list(model.layers[-count].parameters())
    for parameter in group:
        parameter.requires_grad_(True)
    optimizer.add_param_group({"params": group})


def train(epochs, steps):
    model = Encoder().cuda()
    model.layers.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.classifier.parameters(), lr=1e-4, fused=True)
    for epoch in range(epochs):
        if 0 < epoch <= len(model.layers):
            unfreeze(model, optimizer, epoch)
        for _ in range(steps):
            x, y = torch.randn(256, 2560).cuda(), torch.randint(0, 10, (256,)).cuda()
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        print("epoch", epoch, "allocated", torch.cuda.memory_allocated() >> 20, "MiB")


if __name__ == "__main__":
    train(epochs=10, steps=4)
