import torch
from torch import nn

LENGTHS = [310, 420, 388, 512, 275, 450, 390, 505, 333, 480, 298, 440, 365, 470, 402, 510, 350, 5400, 415, 380]


class Reader(nn.Module):
    def __init__(self, vocab=30000, dim=512, layers=2):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(nn.ModuleDict({
            "norm": nn.LayerNorm(dim),
            "qkv": nn.Linear(dim, 3 * dim),
            "mlp": nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim)),
        }) for _ in range(layers))
        self.head = nn.Linear(dim, 20)

    def forward(self, tokens):
        x = self.embed(tokens)
        for layer in self.layers:
            q, k, v = layer["qkv"](layer["norm"](x)).chunk(3, dim=-1)
            attention = torch.softmax(q @ k.transpose(1, 2) * q.size(-1) ** -0.5, dim=-1)
            x = x + attention @ v
            x = x + layer["mlp"](x)
        return self.head(x.mean(dim=1))


def main():
    model = Reader().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for step, longest in enumerate(LENGTHS):
        tokens = torch.randint(0, 30000, (8, longest), device="cuda")
        topics = torch.randint(0, 20, (8,), device="cuda")
        loss = nn.functional.cross_entropy(model(tokens), topics)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("finished epoch of", len(LENGTHS), "batches")


if __name__ == "__main__":
    main()
