"""The accesses in the log of a phantom run are those that PyTorch's dispatcher sees.

In each program, a dispatch mode notes the tensors that each operator takes and returns, and the number of events of the allocator before
and after it. Every allocation that operators used must be accessed in the log, not later than its first operator has ended, and not earlier
than its last operator has begun. The parameters of at most 1 % of a program's launches may be unknown.
"""

import bisect
import csv
import io
import json
import pathlib
import re
import tempfile

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ("transformers", "peft")
MINUTES = 0
IN_TEST = "2.11"

# The number of processes of each program.
PROCESSES = {"gpt2": 1, "resnet50": 1, "llama": 1, "lora": 1, "lstm": 1, "fsdp2": 2}


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--details", type=int, default=0, help="print this many differences of each kind")


def check(run):
    """Compares each process of each program."""
    for name in filter(run.is_chosen, PROCESSES):
        count = PROCESSES[name]
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            torchrun = ["-m", "torch.distributed.run", "--nproc-per-node", count] if count > 1 else []
            card = ["--accesses", "--record", folder / "run.vramscope", "--gpus", count]
            run.phantom(*torchrun, PROGRAM, name, options=card, codes=(0,), TRACED=str(folder))
            for rank in [f"-rank{rank}" for rank in range(count)] if count > 1 else [""]:
                yield compared(run, f"{name}{rank}", folder, rank)


def exported(run, file, table):
    """The rows of a table of a recording."""
    text = run.command("export", file, "--format", "csv", "--what", table, codes=(0,)).stdout
    return list(csv.DictReader(io.StringIO(text)))


def compared(run, name, folder, rank):
    """The figures of a process, and what is wrong."""
    log = folder / f"run{rank}.vramscope"
    traced = [json.loads(line) for line in (folder / f"traced{rank}").read_text().splitlines()]
    info = run.command("info", log, codes=(0,)).stdout.replace(",", "")
    launches, unknown = map(int, re.search(r"(\d+) launch.*?(\d+) with unknown", info).groups())
    allocations = [row for row in exported(run, log, "allocations") if row["alloc_event"]]
    uses = used(allocations, traced)
    wrong = {"are missed": [], "are accessed only after their first operator": [], "are not accessed by their last operator": []}
    missed, early, late = wrong.values()
    longer = []
    for index, ((first, first_operator), (last, last_operator, end)) in sorted(uses.items()):
        row = allocations[index]
        where = (row["line"], row["block_bytes"])
        if row["accesses"] == "0":
            missed.append((*where, first_operator, last_operator))
            continue
        if int(row["first_access"]) > first:
            early.append((*where, first_operator, first, row["first_access"]))
        if int(row["last_access"]) < last:
            late.append((*where, last_operator, last, row["last_access"]))
        if int(row["last_access"]) > end:
            longer.append((*where, last_operator, end, row["last_access"]))
    words = []
    for what, which in wrong.items():
        words += [f"{len(which)} allocations {what}"] * bool(which)
        words += [f"{what}: {' '.join(map(str, one))}" for one in which[: run.options.details]]
    if not uses:
        words.append("no operator was traced")
    if unknown > launches / 100:
        words.append(f"{unknown} of {launches} launches have unknown parameters")
    unused = sum(row["accesses"] == "0" for row in allocations)
    figures = f"{launches} launches, {unknown} with unknown parameters; {len(allocations)} allocations, {unused} never accessed"
    return f"{name}: {figures}; {len(uses)} used by operators, {len(longer)} of them accessed after their last one", words


def used(allocations, traced):
    """For the index of each used allocation: its first operator and when that ended, and its last operator with its beginning and end."""
    by_address = sorted((int(row["address"], 16), index) for index, row in enumerate(allocations))
    uses = {}
    for operator, before, after, addresses in traced:
        for address in addresses:
            index = found(allocations, by_address, address, before, after)
            if index is None:
                continue
            first, last = uses.get(index, ((after, operator), (before, operator, after)))
            uses[index] = (min(first, (after, operator)), max(last, (before, operator, after)))
    return uses


def found(allocations, by_address, address, before, after):
    """The allocation that has an address during an operator."""
    low = bisect.bisect_right(by_address, (address, len(allocations)))
    best = None
    # A block at a lower address may contain it. Blocks of other times begin in between.
    for start, index in reversed(by_address[max(0, low - 2000) : low]):
        row = allocations[index]
        begin, end = int(row["alloc_event"]), int(row["free_event"] or 1 << 60)
        if start + int(row["block_bytes"]) > address and begin < after and end >= before:
            later = best is None or begin > int(allocations[best]["alloc_event"])
            best = index if later else best
    return best
