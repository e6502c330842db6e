"""Run a workload on the first GPU, and print the counters of PyTorch's allocator as one JSON object."""

import argparse
import json

import torch

COUNTERS = {
    "peak_allocated": "allocated_bytes.all.peak",
    "peak_active": "active_bytes.all.peak",
    "peak_requested": "requested_bytes.all.peak",
    "peak_reserved": "reserved_bytes.all.peak",
    "end_reserved": "reserved_bytes.all.current",
    "segments_allocated": "segment.all.allocated",
    "segments_freed": "segment.all.freed",
    "num_alloc_retries": "num_alloc_retries",
    "num_ooms": "num_ooms",
    "allocations": "allocation.all.allocated",
}


def main(workload, iterations):
    """Call `workload` with the number of iterations from the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--iterations", type=int, default=iterations)
    parser.add_argument(
        "--warm-up",
        type=int,
        metavar="ITERATIONS",
        default=0,
        help="first run the workload for this number of iterations, without recording it",
    )
    parser.add_argument(
        "--one-thread",
        action="store_true",
        help="run backward passes on the calling thread, so that cuBLAS has one workspace instead of two",
    )
    parser.add_argument("--record", metavar="FILE", help="write a memory snapshot with the history of the run")
    arguments = parser.parse_args()

    torch.autograd.set_multithreading_enabled(not arguments.one_thread)
    if arguments.warm_up:
        workload(arguments.warm_up)
    if arguments.record:
        torch.cuda.memory._record_memory_history(stacks="python")
    out_of_memory = None
    try:
        # The workload's return value stays alive until the counters are read.
        kept = workload(arguments.iterations)
    except torch.OutOfMemoryError as error:
        out_of_memory = str(error)
    if arguments.record:
        torch.cuda.memory._dump_snapshot(arguments.record)

    counted = torch.cuda.memory_stats(0)
    result = {"torch": torch.__version__, "oom": out_of_memory}
    result |= {name: counted[key] for name, key in COUNTERS.items()}
    print(json.dumps(result))
