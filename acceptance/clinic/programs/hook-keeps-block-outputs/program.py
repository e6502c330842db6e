import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        h = self.norm1(x)
        x = x + self.attn(h, h, h, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class ActivationStats:
    """Collects block outputs for the dead-unit report."""

    def __init__(self, modules):
        self.outputs = []
        self.handles = [module.register_forward_hook(self.record) for module in modules]

    def record(self, module, args, output):
        self.outputs.append(output.detach())

    def dead_units(self):
        last = self.outputs[-1]
        return (last.abs().amax(dim=(0, 1)) == 0).sum()


def main():
    torch.manual_seed(0)
    patches = nn.Linear(768, 512).cuda()
    blocks = nn.Sequential(*[Block(512, 8) for _ in range(3)]).cuda()
    classify = nn.Linear(512, 1000).cuda()
    params = [*patches.parameters(), *blocks.parameters(), *classify.parameters()]
    optimizer = torch.optim.SGD(params, lr=0.1, momentum=0.9)
    stats = ActivationStats(blocks)
    for step in range(30):
        images = torch.randn(192, 196, 768, device="cuda")
        labels = torch.randint(0, 1000, (192,), device="cuda")
        logits = classify(blocks(patches(images)).mean(1))
        loss = nn.functional.cross_entropy(logits, labels)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        dead = stats.dead_units()
    print("finished", step + 1, "steps")


if __name__ == "__main__":
    main()
