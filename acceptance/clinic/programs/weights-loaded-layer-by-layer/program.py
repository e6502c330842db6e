import torch
from torch import nn

DIM, LAYERS = 3072, 20


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(DIM)
        self.up = nn.Linear(DIM, 4 * DIM)
        self.down = nn.Linear(4 * DIM, DIM)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def read_shard(block):
    return {name: torch.empty(tensor.shape, dtype=torch.half) for name, tensor in block.state_dict().items()}


def load_model():
    with torch.device("meta"):
        layers = nn.ModuleList(Block() for _ in range(LAYERS)).half()
    for block in layers:
        shard = {name: tensor.cuda() for name, tensor in read_shard(block).items()}
        block.load_state_dict(shard, assign=True)
    return layers.eval()


@torch.inference_mode()
def embed(layers, batch):
    x = batch.cuda()
    for block in layers:
        x = block(x)
    return x.mean(dim=1).cpu()


REQUESTS = 4
model = load_model()
for _ in range(REQUESTS):
    result = embed(model, torch.zeros(2, 256, DIM, dtype=torch.half))
print(tuple(result.shape), torch.cuda.memory_allocated() >> 20, "MiB")
