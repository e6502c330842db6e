import torch
from torch import nn


class TextEncoder(nn.Module):
    def __init__(self, vocab=32000, dim=512, layers=4):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        layer = nn.TransformerEncoderLayer(dim, 8, 4 * dim, batch_first=True, norm_first=True, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.proj = nn.Linear(dim, 256)

    def forward(self, tokens):
        hidden = self.encoder(self.embed(tokens))
        return nn.functional.normalize(self.proj(hidden.mean(dim=1)), dim=-1)


def embed_corpus(encoder, documents, batch_size=16, length=256):
    encoder.eval()
    vectors = []
    for start in range(0, documents, batch_size):
        tokens = torch.randint(0, 32000, (batch_size, length), device="cuda")
        vectors.append(encoder(tokens))
    return torch.cat(vectors)


def main():
    encoder = TextEncoder().to("cuda")
    corpus = embed_corpus(encoder, documents=480)
    queries = embed_corpus(encoder, documents=16)
    best = (queries @ corpus.T).topk(10, dim=-1).indices
    print("ranked", tuple(best.shape))


main()
