"""Small programs for tests of findings: those of one group differ in one known problem of the allocator."""

import json
import os
import sys

import torch

MIB = 1 << 20


def block(mib):
    """Returns a block of some MiB on the current stream."""
    return torch.empty(int(mib * MIB), dtype=torch.uint8, device="cuda")


def fails(mib):
    """Requests more than there is."""
    try:
        block(mib)
    except torch.OutOfMemoryError:
        return
    raise AssertionError("the request succeeded")


def step(side):
    """Allocates and frees some blocks on the current stream, and one on `side`."""
    kept = [block(30) for _ in range(4)]
    if side is not None:
        with torch.cuda.stream(side):
            kept.append(block(90))
    del kept


def load_on_a_side_stream(uses_it_again):
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        staging = [block(100), block(60)]
    weights = [block(40) for _ in range(5)]
    del staging
    for _ in range(20):
        step(side if uses_it_again else None)
    return weights


def stranded():
    return load_on_a_side_stream(uses_it_again=False)


def reused():
    return load_on_a_side_stream(uses_it_again=True)


def two_parts(first, second):
    """Returns two blocks in one segment of their size."""
    whole = block(first + second)
    del whole
    return block(first), block(second)


def late():
    """A block of 300 MiB waits for another stream, and would fit."""
    first, second = two_parts(300, 100)
    rest = block(400)
    first.record_stream(torch.cuda.Stream())
    del first
    fails(300)
    return second, rest, block(300)


def late_and_too_small():
    """The block of 300 MiB would not fit."""
    first, second = two_parts(300, 100)
    rest = block(400)
    first.record_stream(torch.cuda.Stream())
    del first
    fails(320)
    return second, rest


def too_large():
    kept = block(400), block(30.5)
    fails(500)
    return kept


def advice_was_on():
    return too_large()


def advice_does_not_help():
    return too_large()


def advice_helps():
    """7 holes of 80 MiB between blocks of 20 MiB."""
    parts = [two_parts(80, 20) for _ in range(7)]
    kept = [second for _, second in parts]
    del parts
    fails(300)
    return kept


def cycles(keeps):
    """The cycles of pytorch/pytorch#193400: with a small block that stays alive behind two that are freed, and without."""
    kept = []
    for _ in range(20):
        a, b = block(91), block(45.5)
        if keeps:
            kept.append(block(2))
        del a, b
    return kept


def unsplit():
    return cycles(keeps=True)


def split():
    return cycles(keeps=False)


def unsplit_prefill():
    """After a large block, smaller ones: they may not use it."""
    large = block(400)
    del large
    return [block(50) for _ in range(6)]


def growing():
    """Each request is larger than the one before, so no cached block fits, with the setting or without it."""
    kept = block(100)
    for mib in range(110, 200, 10):
        kept = block(mib)
    return kept


def forward(rows):
    """Two results of some rows, of which the last is returned."""
    hidden = block(rows / 8)
    result = block(rows / 32)
    del hidden
    return result


def in_pool(pool):
    """PyTorch's own count of a pool: reserved and allocated bytes."""
    segments = [s for s in torch.cuda.memory_snapshot() if tuple(s["segment_pool_id"]) == tuple(pool)]
    return [sum(s[key] for s in segments) for key in ("total_size", "allocated_size")]


def captures():
    """Graphs of 12 sizes in one pool, each after a warm-up run outside of it; writes what PyTorch counts for each to `captures.json`."""
    pool, graphs, outputs, counted = torch.cuda.graph_pool_handle(), [], [], []
    for rows in range(768, 0, -64):
        forward(rows)
        graph = torch.cuda.CUDAGraph()
        before = in_pool(pool)
        with torch.cuda.graph(graph, pool=pool):
            outputs.append(forward(rows))
        graphs.append(graph)
        counted.append([after - former for after, former in zip(in_pool(pool), before)])
    with open("captures.json", "w") as out:
        json.dump(counted, out)
    return graphs, outputs


def pool_steps():
    """Steps that allocate in a pool that no graph uses, and that keep a block of it each."""
    pool, kept = torch.cuda.MemPool(), []
    for _ in range(30):
        forward(256)
        with torch.cuda.use_mem_pool(pool):
            forward(128)
            kept.append(forward(64))
    return pool, kept


def train(wrap):
    """Steps of 4 layers of 1,024 x 1,024 parameters and their biases in `wrap`."""
    torch.distributed.init_process_group("nccl")
    model = wrap(torch.nn.Sequential(*[torch.nn.Linear(1024, 1024, device="cuda") for _ in range(4)]))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.zeros(64, 1024, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
    return model


def ddp():
    """The buckets of the first step are rebuilt in the second."""
    return train(torch.nn.parallel.DistributedDataParallel)


def fsdp():
    from torch.distributed.fsdp import fully_shard

    def shard(model):
        for layer in model:
            fully_shard(layer)
        return fully_shard(model)

    return train(shard)


def all_gather(rows):
    """Not a collective: joins rows of this process."""
    return torch.cat(rows)


def named_alike():
    """Functions with the names of collectives, in a program with one process."""
    kept = train(lambda model: model)
    return kept, all_gather([torch.zeros(1 << 20, device="cuda") for _ in range(4)])


if __name__ == "__main__":
    if sys.argv[1].startswith("late") and "LATE" in os.environ:
        # PyTorch finds the function of the first library: events then complete only when it waits for them.
        preload = f"{os.environ.pop('LATE')}:{os.environ['LD_PRELOAD']}"
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, "LD_PRELOAD": preload})
    result = globals()[sys.argv[1]]()
