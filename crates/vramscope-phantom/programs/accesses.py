"""Compare the accesses in logs of phantom runs with those that PyTorch's dispatcher sees.

    accesses.py --vramscope target/debug/vramscope --python PYTHON

Each program runs with `vramscope phantom run --accesses`. In the program, a dispatch mode notes the tensors that each
operator takes and returns, and the number of events of the allocator before and after it. Every allocation that
operators used must be accessed in the log, not later than its first operator has ended, and not earlier than its last
operator has begun. Exits with 1 if an allocation is missed, if the parameters of more than 1 % of a program's launches
are unknown, or if a program fails.
"""

import argparse
import csv
import io
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).parent
# The number of processes of each program.
ALL = {"gpt2": 1, "resnet50": 1, "llama": 1, "lora": 1, "lstm": 1, "fsdp2": 2}

# Operators that access no memory, besides views.
NOTHING = {
    "detach",
    "empty",
    "empty_like",
    "empty_permuted",
    "empty_strided",
    "lift_fresh",
    "new_empty",
    "new_empty_strided",
    "record_stream",
    "resize_",
    "set_",
    "_has_compatible_shallow_copy_type",
}
# Operators that read the shape and the type of their first argument only.
SHAPES = {"full_like", "new_full", "new_ones", "new_zeros", "ones_like", "rand_like", "randn_like", "zeros_like"}
# Arguments and results that an operator does not access.
UNREAD = {
    "native_layer_norm_backward": {"bias"},
    # cuDNN returns the mean and the variance of the batch instead.
    "cudnn_batch_norm_backward": {"running_mean", "running_var"},
    "native_batch_norm_backward": {"running_mean", "running_var"},
    # Without dropout there are no random numbers; with it, their seed may be a number of the host.
    "_scaled_dot_product_flash_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_efficient_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_flash_attention_backward": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_efficient_attention_backward": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_cudnn_attention": {"philox_seed", "philox_offset"},
    "_scaled_dot_product_cudnn_attention_backward": {"philox_seed", "philox_offset"},
}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", default="vramscope", help="the command")
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", nargs="*", choices=ALL, default=list(ALL), help="only these programs")
    parser.add_argument("--details", type=int, default=0, help="show this many differences of each program")
    arguments = parser.parse_args()
    failed = [name for name in arguments.only if not check(name, arguments)]
    if failed:
        sys.exit(f"failed: {', '.join(failed)}")


def check(name, arguments):
    """Runs a program and compares both. Prints a line for each process; returns whether they agree."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        count = ALL[name]
        torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", str(count)] if count > 1 else []
        log = folder / "run.vramscope"
        command = [arguments.vramscope, "phantom", "run", "--once", "--accesses", "--record", log, "--gpus", str(count)]
        command += ["--", arguments.python, *torchrun, __file__]
        environment = {**os.environ, "TRACED": str(folder), "TRACED_PROGRAM": name}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900)
        if done.returncode:
            print(f"{name}: {done.stdout[-500:]} {done.stderr[-2000:]}")
            return False
        ranks = [f"-rank{rank}" for rank in range(count)] if count > 1 else [""]
        return all([compare(f"{name}{rank}", folder, rank, arguments) for rank in ranks])


def export(vramscope, file, table):
    command = [vramscope, "export", file, "--format", "csv", "--what", table]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return list(csv.DictReader(io.StringIO(text)))


def compare(name, folder, rank, arguments):
    log = folder / f"run{rank}.vramscope"
    traced = [json.loads(line) for line in (folder / f"traced{rank}").read_text().splitlines()]
    info = subprocess.run([arguments.vramscope, "info", log], check=True, capture_output=True, text=True).stdout
    launches, unknown = map(int, re.search(r"(\d+) launch.*?(\d+) with unknown", info.replace(",", "")).groups())
    allocations = [row for row in export(arguments.vramscope, log, "allocations") if row["alloc_event"]]
    by_address = sorted((int(row["address"], 16), index) for index, row in enumerate(allocations))
    uses = {}
    for operator, before, after, addresses in traced:
        for address in addresses:
            index = find(allocations, by_address, address, before, after)
            if index is None:
                continue
            first, last = uses.get(index, ((after, operator), (before, operator, after)))
            uses[index] = (min(first, (after, operator)), max(last, (before, operator, after)))
    missed, early, late, longer = [], [], [], []
    for index, ((first, first_operator), (last, last_operator, end)) in sorted(uses.items()):
        row = allocations[index]
        if row["accesses"] == "0":
            missed.append((row["line"], row["block_bytes"], first_operator, last_operator))
            continue
        if int(row["first_access"]) > first:
            early.append((row["line"], row["block_bytes"], first_operator, first, row["first_access"]))
        if int(row["last_access"]) < last:
            late.append((row["line"], row["block_bytes"], last_operator, last, row["last_access"]))
        if int(row["last_access"]) > end:
            longer.append((row["line"], row["block_bytes"], last_operator, end, row["last_access"]))
    unused = sum(row["accesses"] == "0" for row in allocations)
    print(
        f"{name}: {launches} launches, {unknown} with unknown parameters; {len(allocations)} allocations, "
        f"{unused} never accessed; {len(uses)} used by operators, {len(missed)} of them missed, "
        f"{len(early)} accessed only after their first operator, {len(late)} not by their last, "
        f"{len(longer)} also after it",
        flush=True,
    )
    for what, which in [("missed", missed), ("first", early), ("last", late), ("longer", longer)]:
        for difference in which[: arguments.details]:
            print("   ", what, *difference)
    return bool(uses) and not missed and not early and not late and unknown <= launches / 100


def find(allocations, by_address, address, before, after):
    """The allocation that has an address during an operator."""
    low, high = 0, len(by_address)
    while low < high:
        middle = (low + high) // 2
        if by_address[middle][0] > address:
            high = middle
        else:
            low = middle + 1
    best = None
    # A block at a lower address may contain it. Blocks of other times begin in between.
    for start, index in reversed(by_address[max(0, low - 2000) : low]):
        row = allocations[index]
        begin, end = int(row["alloc_event"]), int(row["free_event"] or 1 << 60)
        if start + int(row["block_bytes"]) > address and begin < after and end >= before:
            later = best is None or begin > int(allocations[best]["alloc_event"])
            best = index if later else best
    return best


# ---- in the program ----


def run(name):
    """Runs a program under the dispatch mode."""
    import torch
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_leaves

    rank = os.environ.get("RANK")
    out = open(pathlib.Path(os.environ["TRACED"]) / (f"traced-rank{rank}" if rank else "traced"), "w")  # noqa: SIM115
    device = int(os.environ.get("LOCAL_RANK", 0))
    torch.cuda.set_device(device)
    torch.cuda.init()

    def events():
        """The number of events of the allocator so far."""
        counted = torch._C._cuda_memoryStats(device)
        each = [counted[what]["all"][how] for what in ("allocation", "segment") for how in ("allocated", "freed")]
        return sum(each) + counted["num_ooms"]

    class Operators(TorchDispatchMode):
        def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
            if any("DTensor" in kind.__name__ for kind in types):
                # Its operators on local tensors follow.
                return NotImplemented
            kwargs = kwargs or {}
            before = events()
            result = operator(*args, **kwargs)
            used = tensors(operator, args, kwargs, result)
            if used:
                out.write(json.dumps([str(operator), before, events(), used]) + "\n")
            return result

    def tensors(operator, args, kwargs, result):
        name = operator.__name__.split(".")[0]
        if name in NOTHING or getattr(operator, "is_view", False):
            return []
        schema = operator._schema
        results = result if isinstance(result, tuple) else (result,)
        named = [*zip(schema.returns, results)] + ([] if name in SHAPES else [*zip(schema.arguments, args)])
        leaves = tree_leaves([[value for of, value in named if of.name not in UNREAD.get(name, ())], kwargs])
        found = {
            leaf.data_ptr()
            for leaf in leaves
            if isinstance(leaf, torch.Tensor) and leaf.is_cuda and leaf.numel() > 0 and leaf.data_ptr() != 0
        }
        return sorted(found)

    with Operators():
        globals()[f"run_{name}"]()
    out.close()


def train(model, step, iterations=3, **options):
    import torch

    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], **options)
    for _ in range(iterations):
        step().backward()
        optimizer.step()
        optimizer.zero_grad()


def run_gpt2():
    sys.path.insert(0, str(PROGRAMS))
    import gpt2

    gpt2.gpt2(3)


def run_resnet50():
    import torch

    sys.path.insert(0, str(PROGRAMS))
    import resnet50

    model = resnet50.ResNet50().cuda()

    def step():
        images = torch.randn(8, 3, 224, 224, device="cuda")
        labels = torch.randint(1000, (8,), device="cuda")
        return torch.nn.functional.cross_entropy(model(images), labels)

    train(model, step)


def run_llama():
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        hidden_size=512,
        intermediate_size=1376,
        num_hidden_layers=6,
        num_attention_heads=8,
        num_key_value_heads=4,
        vocab_size=8000,
        attn_implementation="sdpa",
    )
    model = LlamaForCausalLM(config).to("cuda", torch.bfloat16)

    def step():
        ids = torch.randint(config.vocab_size, (2, 256), device="cuda")
        return model(input_ids=ids, labels=ids).loss

    train(model, step)


def run_lora():
    sys.path.insert(0, str(PROGRAMS))
    import lora

    lora.lora(3)


def run_lstm():
    import torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = torch.nn.Embedding(5000, 256)
            self.lstm = torch.nn.LSTM(256, 512, 2, batch_first=True, dropout=0.1)
            self.scores = torch.nn.Linear(512, 5000)

        def forward(self, ids):
            return self.scores(self.lstm(self.embedding(ids))[0])

    model = Model().cuda()

    def step():
        ids = torch.randint(5000, (8, 65), device="cuda")
        return torch.nn.functional.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())

    train(model, step)


def run_fsdp2():
    import torch
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard

    sys.path.insert(0, str(PROGRAMS))
    import ranks

    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = ranks.transformer().cuda()
    for block in model[1]:
        fully_shard(block)
    fully_shard(model)

    def step():
        ids = torch.randint(ranks.VOCABULARY, (ranks.BATCH, ranks.LENGTH), device="cuda")
        return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())

    train(model, step)
    dist.destroy_process_group()


if __name__ == "__main__":
    if "TRACED_PROGRAM" in os.environ:
        run(os.environ["TRACED_PROGRAM"])
    else:
        main()
