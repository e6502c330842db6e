"""Check the memory of a served model in the report against PyTorch's counters and against the program's own tensors.

    check_serving.py --vramscope target/debug/vramscope --python PYTHON

Runs engine/vllm/v1/worker/gpu_model_runner.py in several sizes. Each number has to be equal to the byte. The program sleeps and wakes
twice: the bytes that it unmaps and maps again may be counted once only. Exits with 1 if a check fails.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

ENGINE = pathlib.Path(__file__).parent / "engine/vllm"
PROGRAM = ENGINE / "v1/worker/gpu_model_runner.py"
# Width, layers and blocks of the KV cache. The second has blocks that are not split, and the third many small ones.
SIZES = [(1024, 4, 256), (1000, 6, 300), (128, 12, 40)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        library = f"{folder}/cumem.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, ENGINE / "device_allocator/cumem.c"], check=True)
        for sizes in SIZES:
            counted, device = recorded(arguments, folder, library, sizes, "run.pickle")
            wrong = check(counted, device)
            counted, device = recorded(arguments, folder, library, sizes, "run.vramscope")
            wrong += check_log(counted, device)
            failed += bool(wrong)
            print(f"{sizes}: {'; '.join(wrong) or 'holds'}", flush=True)
    sys.exit(failed > 0)


def recorded(arguments, folder, library, sizes, name):
    """What the program counted in a run, and the first device in the report of its recording."""
    recording, out = f"{folder}/{name}", f"{folder}/counted.json"
    run = [arguments.vramscope, "phantom", "run", "--once", "--gpu", "h100-80gb", "--record", recording]
    program = [arguments.python, "-B", PROGRAM, out, *map(str, sizes)]
    environment = {**os.environ, "CUMEM": library}
    done = subprocess.run([*run, "--", *program], capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode == 0, done.stderr + done.stdout
    report = [arguments.vramscope, "report", "--json", recording]
    done = subprocess.run(report, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(pathlib.Path(out).read_text()), json.loads(done.stdout)["devices"][0]


def differences(pairs):
    """The pairs of a report's number and a counted one that differ."""
    return [f"{name}: {told:,} instead of {counted:,}" for name, told, counted in pairs if told != counted]


def check(counted, device):
    """The wrong numbers in the report of a snapshot."""
    parts, tagged, serving = counted["parts"], counted["tagged"], device["serving"]
    graph_pool = [pool["allocated_bytes"] for pool in device["private_pools"] if pool["of_graphs"]]
    rest = counted["allocated"] - sum(tagged[part] for part in ("weights", "kv_cache")) - sum(graph_pool)
    awake, asleep = counted["states"][0], counted["states"][1::2]
    pairs = [
        ("weights by counters", serving["weights_bytes"], parts["weights"]["allocated"]),
        ("weights by tensors", serving["weights_bytes"], tagged["weights"]),
        ("KV cache by counters", serving["kv_cache_bytes"], parts["kv_cache"]["allocated"]),
        ("KV cache by tensors", serving["kv_cache_bytes"], tagged["kv_cache"]),
        ("graphs", serving["graphs_bytes"], sum(capture["allocated"] for capture in counted["captures"])),
        ("the pool of the graphs", serving["graphs_bytes"], sum(graph_pool)),
        ("other blocks", serving["other_bytes"], rest),
        ("activations of one forward pass", serving["activations_bytes"], parts["activations"]["peak"]),
        ("allocated bytes at the end", device["end_allocated_bytes"], counted["allocated"]),
        ("reserved bytes at the end", device["end_reserved_bytes"], counted["reserved"]),
        *(
            (f"{key} after sleep and wake", state[key], awake[key])
            for state in counted["states"][2::2]
            for key in awake
        ),
        *(("bytes that sleep releases", awake["used"] - state["used"], awake["mapped"]) for state in asleep),
        *(("mapped bytes asleep", state["mapped"], 0) for state in asleep),
    ]
    pairs += [
        (f"{pool['pool']}", pool["reserved_bytes"], counted["pools"][name_of(pool)][1])
        for pool in device["private_pools"]
    ]
    pairs += [
        (f"{pool['pool']}", pool["allocated_bytes"], counted["pools"][name_of(pool)][2])
        for pool in device["private_pools"]
    ]
    if len(device["private_pools"]) != 3:
        return [f"{len(device['private_pools'])} private pools", *differences(pairs)]
    return differences(pairs)


def name_of(pool):
    return str(tuple(pool["pool"]))


def check_log(counted, device):
    """The wrong numbers in the report of a log, which also has the memory that the pools of sleep mode map."""
    awake = counted["states"][0]
    library = [row for row in device["libraries"] if row["library"] == "cumem.so"]
    pairs = [
        ("bytes mapped by cumem.so at its peak", sum(row["peak_bytes"] for row in library), awake["mapped"]),
        ("bytes mapped by cumem.so at the end", sum(row["end_bytes"] for row in library), awake["mapped"]),
        (
            "reserved bytes without those of cumem.so",
            device["peak_reserved_bytes"],
            counted["reserved"] - awake["mapped"],
        ),
    ]
    return differences(pairs)


if __name__ == "__main__":
    main()
