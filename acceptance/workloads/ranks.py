"""Train a small transformer on all ranks with one kind of parallelism, check each rank's state, and print the counters of its
allocator, as one JSON object per rank.

    torchrun --nproc-per-node 8 ranks.py {ddp,fsdp2,tensor,pipeline,objects}

Every check also passes on real GPUs. With VRAMSCOPE_PRETEND_RANKS, the program is a single rank in a pretended world.
"""

import argparse
import json
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed import DeviceMesh, init_device_mesh
from torch.nn import functional as F

LAYERS = 8
WIDTH = 512
HEADS = 8
VOCABULARY = 1000
BATCH = 8
LENGTH = 64
STEPS = 3


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(WIDTH)
        self.query = nn.Linear(WIDTH, WIDTH, bias=False)
        self.key = nn.Linear(WIDTH, WIDTH, bias=False)
        self.value = nn.Linear(WIDTH, WIDTH, bias=False)
        self.projection = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, 4 * WIDTH, bias=False)
        self.down = nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        normed = self.norm(x)
        # The number of heads depends on this rank's share of the weights.
        query, key, value = (
            part(normed).unflatten(-1, (-1, WIDTH // HEADS)).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        attended = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.projection(attended.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(x)))


def blocks(count=LAYERS):
    return nn.Sequential(*(Block() for _ in range(count)))


def transformer():
    return nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), blocks(), nn.Linear(WIDTH, VOCABULARY, bias=False))


def train(model, optimizer):
    for _ in range(STEPS):
        tokens = torch.randint(VOCABULARY, (BATCH, LENGTH), device="cuda")
        F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def bytes_of(parameters):
    """The allocator's bytes for parameters: each has its own block, rounded up to 512 bytes."""
    return sum(-(-p.numel() * p.element_size() // 512) * 512 for p in parameters)


def ddp():
    model = transformer().cuda()
    whole = bytes_of(model.parameters())
    model = nn.parallel.DistributedDataParallel(model, device_ids=[torch.cuda.current_device()])
    train(model, torch.optim.AdamW(model.parameters()))
    # Parameters, AdamW's two moments, and the gradient buckets.
    assert torch.cuda.max_memory_allocated() >= 4 * whole
    return {"parameter_bytes": whole}


def fsdp2():
    from torch.distributed.fsdp import fully_shard

    with torch.device("meta"):
        model = transformer()
    whole = bytes_of(model.parameters())
    for block in model[1]:
        fully_shard(block)
    fully_shard(model)
    model.to_empty(device="cuda")
    shards = [p.to_local() for p in model.parameters()]
    held = torch.cuda.memory_allocated()
    # Dimensions that the ranks do not divide evenly are padded.
    assert bytes_of(shards) <= held <= whole / dist.get_world_size() + 512 * 2 * len(shards), held
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    train(model, torch.optim.AdamW(model.parameters()))
    # No rank ever holds all parameters and moments.
    assert torch.cuda.max_memory_allocated() < 4 * whole
    return {"parameter_bytes": held}


def tensor():
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    world = dist.get_world_size()
    mesh = init_device_mesh("cuda", (world,))
    torch.manual_seed(0)
    model = transformer().cuda()
    column, row = ColwiseParallel(), RowwiseParallel()
    plan = dict.fromkeys(("query", "key", "value", "up"), column) | dict.fromkeys(("projection", "down"), row)
    for block in model[1]:
        parallelize_module(block, mesh, plan)
    assert model[1][0].up.weight.to_local().shape == (4 * WIDTH // world, WIDTH)
    assert model[1][0].up.weight.full_tensor().shape == (4 * WIDTH, WIDTH)
    train(model, torch.optim.AdamW(model.parameters(), foreach=False))
    return {"parameter_bytes": bytes_of(p.to_local() if hasattr(p, "to_local") else p for p in model.parameters())}


def pipeline():
    from torch.distributed.pipelining import PipelineStage, Schedule1F1B

    rank, world = dist.get_rank(), dist.get_world_size()
    stage_of = blocks(LAYERS // world).cuda()
    optimizer = torch.optim.AdamW(stage_of.parameters())
    stage = PipelineStage(stage_of, rank, world, torch.device("cuda", torch.cuda.current_device()))
    schedule = Schedule1F1B(stage, n_microbatches=world, loss_fn=lambda output, target: (output - target).square().mean())
    shape = (BATCH * world, LENGTH, WIDTH)
    for _ in range(STEPS):
        # Only the first stage gets input, and only the last one computes a loss.
        fed = [torch.randn(shape, device="cuda")] if rank == 0 else []
        output = schedule.step(*fed, **({"target": torch.randn(shape, device="cuda")} if rank == world - 1 else {}))
        optimizer.step()
        optimizer.zero_grad()
    if rank == world - 1:
        assert output.shape == shape, output.shape
    return {"parameter_bytes": bytes_of(stage_of.parameters())}


def objects():
    rank, world = dist.get_rank(), dist.get_world_size()
    pretended = "VRAMSCOPE_PRETEND_RANKS" in os.environ
    ranks = [rank] * world if pretended else list(range(world))

    gathered = [None] * world
    dist.all_gather_object(gathered, {"rank": rank, "text": "x" * (10 + 100 * rank)})
    assert gathered == [{"rank": r, "text": "x" * (10 + 100 * r)} for r in ranks], gathered
    gathered = [None] * world if rank == 0 else None
    dist.gather_object(rank, gathered, dst=0)
    assert rank != 0 or gathered == ranks, gathered
    values = [torch.empty(3, dtype=torch.long, device="cuda") for _ in range(world)]
    dist.all_gather(values, torch.tensor([rank] * 3, device="cuda"))
    assert [value.tolist() for value in values] == [[r] * 3 for r in ranks], values
    total = torch.tensor([rank + 1, 5], device="cuda")
    dist.all_reduce(total)
    assert total.tolist() == [sum(r + 1 for r in ranks), 5 * world], total
    dist.barrier()
    if pretended:
        return {}

    told = [{"from": rank}, "two" * (rank + 1), None] if rank == world - 1 else [None] * 3
    dist.broadcast_object_list(told, src=world - 1)
    assert told == [{"from": world - 1}, "two" * world, None], told
    scattered = [None]
    dist.scatter_object_list(scattered, [f"for {r}" for r in ranks] if rank == 0 else None, src=0)
    assert scattered == [f"for {rank}"], scattered
    if rank == 0:
        dist.send_object_list([torch.Size([3, 4])], dst=1)
    if rank == 1:
        received = [None]
        dist.recv_object_list(received, src=0)
        assert received == [torch.Size([3, 4])], received
    halves = [dist.new_group([r for r in ranks if r % 2 == half]) for half in range(2)]
    gathered = [None] * dist.get_world_size(halves[rank % 2])
    dist.all_gather_object(gathered, rank, group=halves[rank % 2])
    assert gathered == [r for r in ranks if r % 2 == rank % 2], gathered
    mesh = DeviceMesh("cuda", torch.arange(world).view(2, -1), mesh_dim_names=("outer", "inner"))
    assert mesh["outer"].size() == 2 and mesh.get_local_rank("outer") == rank // (world // 2)
    # All ranks see the effect of an action before the barrier.
    mark = os.path.join(os.environ["MARKS"], "mark")
    if rank == 0:
        open(mark, "w").close()
    dist.barrier()
    assert os.path.exists(mark)
    return {}


def main():
    ways = {function.__name__: function for function in (ddp, fsdp2, tensor, pipeline, objects)}
    parser = argparse.ArgumentParser()
    parser.add_argument("way", choices=ways)
    arguments = parser.parse_args()

    device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    torch.cuda.set_device(device)
    dist.init_process_group("nccl")
    said = ways[arguments.way]()
    said |= {
        "rank": dist.get_rank(),
        "world_size": dist.get_world_size(),
        "peak_allocated": torch.cuda.max_memory_allocated(),
        "peak_reserved": torch.cuda.max_memory_reserved(),
    }
    print(json.dumps(said), flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
