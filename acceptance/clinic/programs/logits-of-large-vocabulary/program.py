import torch
from torch import nn
import torch.nn.functional as F


class TinyLM(nn.Module):
    def __init__(self, vocab=128256, dim=512, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(dim, 8, 1536, dropout=0.0, batch_first=True, norm_first=True) for _ in range(layers)
        )
        self.norm = nn.LayerNorm(dim)

    def forward(self, tokens):
        mask = nn.Transformer.generate_square_subsequent_mask(tokens.size(1), device=tokens.device, dtype=torch.bfloat16)
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.norm(x)


def language_loss(model, tokens):
    hidden = model(tokens[:, :-1])
    logits = F.linear(hidden, model.embed.weight)
    return F.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten())


def main(batch=4, context=1024):
    model = TinyLM().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(4):
        tokens = torch.randint(0, 128256, (batch, context + 1), device="cuda")
        loss = language_loss(model, tokens)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained")


main()
