"""Run programs with several processes on phantom GPUs, and check the command's answers against PyTorch's counters.

    check_ranks.py --vramscope target/debug/vramscope --python PYTHON [--only NAME]

Prints one line per check, and exits with 1 if a check fails.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

FOLDER = pathlib.Path(__file__).parent
WAYS = ["ddp", "fsdp2", "tensor", "pipeline", "objects"]
SECONDS = 300
# Limit on the host memory of one rank of 70 billion parameters, in bytes.
HOST_BYTES = 2e9


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", type=pathlib.Path, required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--only", default="", help="only the checks whose name contains this")
    arguments = parser.parse_args()

    failed = 0
    checks = {f"{way} on {ranks} ranks": (on_ranks, way, ranks) for ranks in (2, 8) for way in WAYS}
    checks |= {f"rank 3 of a pretended world, {way}": (alone, way) for way in WAYS if way != "pipeline"}
    checks["more ranks than GPUs"] = (too_many,)
    checks["70 billion parameters on 64 pretended ranks"] = (large,)
    for name, (check, *what) in checks.items():
        if arguments.only not in name:
            continue
        try:
            words = check(arguments, *what) or "holds"
        except (AssertionError, subprocess.TimeoutExpired) as error:
            failed += 1
            words = f"FAILS: {error}"
        print(f"{name}: {words}", flush=True)
    sys.exit(failed > 0)


def run(arguments, options, command):
    """The exit code, the command's JSON answer, and the program's output."""
    command = [arguments.vramscope, "phantom", "run", "--json", "--once", *options, "--", arguments.python, *command]
    with tempfile.TemporaryDirectory() as marks:
        environment = {**os.environ, "MARKS": marks, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    last = (done.stderr.strip() or "no message").splitlines()[-1]
    assert done.stdout, f"ended with {done.returncode}: {last}"
    return done.returncode, json.loads(done.stdout), done.stderr


def said(text):
    """The JSON objects in a program's output. Ranks may print on the same line."""
    decoder, found, at = json.JSONDecoder(), [], text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(value)
        except json.JSONDecodeError:
            end = at + 1
        at = text.find("{", end)
    return sorted((value for value in found if "rank" in value), key=lambda value: value["rank"])


def torchrun(ranks, way):
    return ["-m", "torch.distributed.run", "--nproc-per-node", str(ranks), FOLDER / "ranks.py", way]


def last_line_of_error(text):
    errors = [line for line in text.splitlines() if "Error" in line]
    return errors[0] if errors else text[-300:]


def on_ranks(arguments, way, ranks):
    code, answer, text = run(arguments, ["--gpus", str(ranks)], torchrun(ranks, way))
    assert code == 0, last_line_of_error(text)
    counted = said(text)
    assert [rank["rank"] for rank in counted] == list(range(ranks)), f"ranks {counted}"
    assert [process["rank"] for process in answer["processes"]] == list(range(ranks)), "not every rank was recorded"
    for rank, process in zip(counted, answer["processes"]):
        for device, of in enumerate(process["devices"]):
            own = device == rank["rank"]
            for ours, theirs in (("peak_allocated_bytes", "peak_allocated"), ("peak_reserved_bytes", "peak_reserved")):
                expected = rank[theirs] if own else 0
                assert of[ours] == expected, f"rank {rank['rank']}, GPU {device}: {ours} is {of[ours]}, not {expected}"
    assert answer["collectives"] > 0
    fullest = max(gpu["peak_bytes"] for gpu in answer["gpus"])
    assert answer["gpus"][answer["fullest_gpu"]]["peak_bytes"] == fullest
    assert answer["fullest_rank"] == answer["fullest_gpu"], answer["fullest_rank"]
    unknown = [call["name"] for call in answer["unanswered"]]
    assert not unknown, f"unanswered calls: {unknown}"
    peaks = [rank["peak_allocated"] for rank in counted]
    if way in ("fsdp2", "tensor"):
        assert len(set(peaks)) == 1, f"peaks differ: {peaks}"
    parameters = sum(rank.get("parameter_bytes", 0) for rank in counted)
    return f"holds; {max(peaks):,} bytes at the highest peak, {parameters:,} of parameters on all ranks"


def alone(arguments, way):
    """A single pretended rank has the same memory use as in a real world."""
    options = ["--world-size", "8", "--rank", "3"]
    code, answer, text = run(arguments, options, [FOLDER / "ranks.py", way])
    assert code == 0, last_line_of_error(text)
    (pretended,) = said(text)
    assert [process["rank"] for process in answer["processes"]] == [3]
    if way not in ("fsdp2", "tensor"):
        return None
    code, _, text = run(arguments, ["--gpus", "8"], torchrun(8, way))
    assert code == 0, last_line_of_error(text)
    among = said(text)[3]
    assert pretended == among, f"{pretended} alone, but {among} among real ranks"
    return f"holds; {pretended['peak_allocated']:,} bytes, as among real ranks"


def too_many(arguments):
    code, _, text = run(arguments, ["--gpus", "2"], torchrun(3, "ddp"))
    assert code == 2 and "invalid device ordinal" in text, last_line_of_error(text)


def large(arguments):
    code, answer, text = run(arguments, ["--world-size", "64", "--rank", "3"], [FOLDER / "fsdp2_70b.py"])
    assert code == 0, last_line_of_error(text)
    counted = json.loads(next(line for line in text.splitlines() if line.startswith('{"parameters"')))
    assert counted["parameters"] > 70e9 and counted["most_host_bytes"] < HOST_BYTES, counted
    # The rank's share of the parameters, their gradients and two moments, in single precision.
    assert counted["peak_allocated"] > 4 * 4 * counted["parameters"] / 64, counted
    assert answer["processes"][0]["devices"][0]["peak_allocated_bytes"] == counted["peak_allocated"]
    host, peak = counted["most_host_bytes"], counted["peak_allocated"]
    return f"holds; {peak:,} bytes of the GPU and {host:,} bytes of the host"


if __name__ == "__main__":
    main()
