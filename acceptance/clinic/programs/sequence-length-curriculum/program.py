import torch
import torch.nn.functional as F
from torch import nn


class CharModel(nn.Module):
    def __init__(self, vocab=8000, dim=1024, hidden=4096):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.up = nn.Linear(dim, hidden)
        self.down = nn.Linear(hidden, dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, tokens):
        x = self.embed(tokens)
        x = x + self.down(F.gelu(self.up(x)))
        return self.head(x)


def train(lengths, steps_per_length):
    model = CharModel().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for length in lengths:
        for _ in range(steps_per_length):
            tokens = torch.randint(0, 8000, (8, length + 1)).cuda()
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
        print("length", length, "peak", torch.cuda.max_memory_allocated() >> 20, "MiB")


if __name__ == "__main__":
    train(lengths=range(128, 1153, 128), steps_per_length=5)
