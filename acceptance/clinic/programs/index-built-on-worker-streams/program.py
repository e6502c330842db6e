import torch
from torch import nn
from torch.nn import functional as F

DIM, HIDDEN, DOCUMENTS = 1024, 4096, 131072


class DocumentEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.up = nn.Linear(DIM, HIDDEN, bias=False)
        self.down = nn.Linear(HIDDEN, DIM, bias=False)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)))


@torch.inference_mode()
def build_index(encoder, workers):
    shards = []
    for _ in range(workers):
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            documents = torch.zeros(DOCUMENTS, DIM, dtype=torch.half, device="cuda")
            shards.append(encoder(documents))
            del documents
        torch.cuda.current_stream().wait_stream(stream)
    return shards


@torch.inference_mode()
def search(shards, queries, k=10):
    hits = []
    for shard in shards:
        hits.append((queries @ shard.T).topk(k, dim=1).indices.cpu())
    return torch.cat(hits, dim=1)


if __name__ == "__main__":
    encoder = DocumentEncoder().half().cuda().eval()
    index = build_index(encoder, workers=3)
    queries = torch.zeros(12288, DIM, dtype=torch.half).cuda()
    print(tuple(search(index, queries).shape))
