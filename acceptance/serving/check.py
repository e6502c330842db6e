"""The memory of a served model in the report equals PyTorch's counters and the program's own tensors.

Runs vllm/v1/worker/gpu_model_runner.py in several sizes. Each number has to be equal to the byte. The program sleeps and wakes
twice: the bytes that it unmaps and maps again may be counted once only.
"""

import json
import pathlib
import subprocess
import tempfile

ENGINE = pathlib.Path(__file__).parent / "vllm"
PROGRAM = ENGINE / "v1/worker/gpu_model_runner.py"
NEEDS = ("cc",)
MINUTES = 0
IN_TEST = "every release"

# Width, layers and blocks of the KV cache. The second has blocks that are not split, and the third many small ones.
SIZES = [(1024, 4, 256), (1000, 6, 300), (128, 12, 40)]


def check(run):
    """Records each size as a snapshot and as a log."""
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/cumem.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ENGINE / "device_allocator/cumem.c"], check=True)
        for sizes in SIZES:
            for name, numbers in (("run.pickle", of_snapshot), ("run.vramscope", of_log)):
                pairs = numbers(*recorded(run, folder, library, sizes, name))
                wrong = [f"{what}: {found:,} instead of {counted:,}" for what, found, counted in pairs if found != counted]
                yield f"width, layers and blocks {sizes}, {name}", wrong


def recorded(run, folder, library, sizes, name):
    """What the program counted in a run, and the first device in the report of its recording."""
    recording, out = f"{folder}/{name}", f"{folder}/counted.json"
    options = ["--gpu", "h100-80gb", "--record", recording]
    run.phantom("-B", PROGRAM, out, *sizes, options=options, codes=(0,), CUMEM=library)
    return json.loads(pathlib.Path(out).read_text()), run.device(recording)


def of_snapshot(counted, device):
    """The numbers in the report of a snapshot, beside the counted ones."""
    parts, tagged, serving, pools = counted["parts"], counted["tagged"], device["serving"], device["private_pools"]
    graph_pool = [pool["allocated_bytes"] for pool in pools if pool["of_graphs"]]
    rest = counted["allocated"] - sum(tagged[part] for part in ("weights", "kv_cache")) - sum(graph_pool)
    awake, asleep = counted["states"][0], counted["states"][1::2]
    yield "private pools", len(pools), 3
    yield "weights by counters", serving["weights_bytes"], parts["weights"]["allocated"]
    yield "weights by tensors", serving["weights_bytes"], tagged["weights"]
    yield "KV cache by counters", serving["kv_cache_bytes"], parts["kv_cache"]["allocated"]
    yield "KV cache by tensors", serving["kv_cache_bytes"], tagged["kv_cache"]
    yield "graphs", serving["graphs_bytes"], sum(capture["allocated"] for capture in counted["captures"])
    yield "the pool of the graphs", serving["graphs_bytes"], sum(graph_pool)
    yield "other blocks", serving["other_bytes"], rest
    yield "activations of one forward pass", serving["activations_bytes"], parts["activations"]["peak"]
    yield "allocated bytes at the end", device["end_allocated_bytes"], counted["allocated"]
    yield "reserved bytes at the end", device["end_reserved_bytes"], counted["reserved"]
    for state in counted["states"][2::2]:
        for key in awake:
            yield f"{key} after sleep and wake", state[key], awake[key]
    for state in asleep:
        yield "bytes that sleep releases", awake["used"] - state["used"], awake["mapped"]
        yield "mapped bytes asleep", state["mapped"], 0
    for pool in pools:
        _, reserved, allocated = counted["pools"][str(tuple(pool["pool"]))]
        yield f"reserved bytes of pool {pool['pool']}", pool["reserved_bytes"], reserved
        yield f"allocated bytes of pool {pool['pool']}", pool["allocated_bytes"], allocated


def of_log(counted, device):
    """The numbers in the report of a log, which also has the memory that the pools of sleep mode map, beside the counted ones."""
    awake = counted["states"][0]
    library = [row for row in device["libraries"] if row["library"] == "cumem.so"]
    yield "bytes mapped by cumem.so at its peak", sum(row["peak_bytes"] for row in library), awake["mapped"]
    yield "bytes mapped by cumem.so at the end", sum(row["end_bytes"] for row in library), awake["mapped"]
    without = counted["reserved"] - awake["mapped"]
    yield "reserved bytes without those of cumem.so", device["peak_reserved_bytes"], without
