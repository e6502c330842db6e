import time
from dataclasses import dataclass, field

import torch
from torch import nn

LAYERS, HEADS, HEAD_DIM = 4, 16, 128
DIM = HEADS * HEAD_DIM


@dataclass
class Request:
    name: str
    hidden: torch.Tensor
    cache: list = field(default_factory=lambda: [None] * LAYERS)
    started: float = field(default_factory=time.time)
    finished: float = 0.0


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(DIM, 3 * DIM, bias=False)

    def forward(self, x, past):
        q, k, v = self.qkv(x).view(len(x), 3, HEADS, HEAD_DIM).permute(1, 2, 0, 3)
        if past is not None:
            k, v = torch.cat([past[0], k], dim=1), torch.cat([past[1], v], dim=1)
        y = nn.functional.scaled_dot_product_attention(q[None], k[None], v[None])[0]
        return x + y.transpose(0, 1).reshape(len(x), DIM), (k.contiguous(), v.contiguous())


class Engine:
    def __init__(self):
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS)).half().cuda()
        self.completed = []

    @torch.inference_mode()
    def run(self, request, new_tokens):
        x = request.hidden
        for _ in range(new_tokens):
            for index, layer in enumerate(self.layers):
                x, request.cache[index] = layer(x, request.cache[index])
            x = x[-1:]
        request.finished = time.time()
        self.completed.append(request)


if __name__ == "__main__":
    engine = Engine()
    for number in range(20):
        prompt = torch.zeros(5000, DIM, dtype=torch.half).cuda()
        engine.run(Request(f"request-{number}", prompt), new_tokens=3)
    print("slowest", max(r.finished - r.started for r in engine.completed) < 1e6)
