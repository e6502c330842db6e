import torch
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocab=128, hidden=1024, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, hidden)
        self.cells = nn.ModuleList(nn.GRUCell(hidden, hidden) for _ in range(layers))
        self.out = nn.Linear(hidden, vocab)

    def forward(self, tokens, state):
        logits = []
        for t in range(tokens.size(1)):
            x = self.embed(tokens[:, t])
            new_state = []
            for cell, h in zip(self.cells, state):
                x = cell(x, h)
                new_state.append(x)
            state = new_state
            logits.append(self.out(x))
        return torch.stack(logits, dim=1), state


def train(windows=16, window=4, batch=2048):
    model = CharModel().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    state = [torch.zeros(batch, 1024, device="cuda") for _ in range(2)]
    for i in range(windows):
        text = torch.randint(0, 128, (batch, window + 1), device="cuda")
        logits, state = model(text[:, :-1], state)
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward(retain_graph=True)
        for group in optimizer.param_groups:
            group["lr"] *= 0.99
        torch.nn.utils.clip_grad_value_(model.parameters(), 1.0)
        with torch.no_grad():
            for p in model.parameters():
                p.data.add_(p.grad, alpha=-optimizer.param_groups[0]["lr"])


train()
