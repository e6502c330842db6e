import torch
import torch.nn.functional as F
from torch import nn

VOCAB, DIM, MAX_LENGTH = 16000, 768, 1024


class TinyLM(nn.Module):
    def __init__(self, layers=2):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, DIM)
        layer = nn.TransformerEncoderLayer(DIM, 12, 4 * DIM, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(DIM, VOCAB)

    def forward(self, tokens):
        return self.head(self.layers(self.embed(tokens)))


def step(model, optimizer, length):
    tokens = torch.randint(0, VOCAB, (4, length + 1)).cuda()
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.detach()


def train(steps):
    model = TinyLM().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for _ in range(2):
        step(model, optimizer, MAX_LENGTH)
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps):
        length = int(torch.randint(4, 12, (1,), generator=generator)) * 64
        step(model, optimizer, length)


if __name__ == "__main__":
    train(steps=8)
