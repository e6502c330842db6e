"""Programs with several processes: the command's answers equal PyTorch's counters of each rank.

Every kind of parallelism runs on 2 and on 8 phantom GPUs, and as one rank of a pretended world, whose memory must be that of a real one.
"""

import json
import tempfile

from common import WORKLOADS, Failed

PROGRAM = WORKLOADS / "ranks.py"
NEEDS = ()
MINUTES = None
IN_TEST = "every release"

WAYS = ["ddp", "fsdp2", "tensor", "pipeline", "objects"]
# Limit on the host memory of one rank of 70 billion parameters, in bytes.
HOST_BYTES = 2e9


def check(run):
    """Tries each kind of parallelism; a row has its figures."""
    cases = {f"{way} on {ranks} ranks": (on_ranks, way, ranks) for ranks in (2, 8) for way in WAYS}
    cases |= {f"rank 3 of a pretended world, {way}": (alone, way) for way in WAYS if way != "pipeline"}
    cases["more ranks than GPUs"] = (too_many,)
    cases["70 billion parameters on 64 pretended ranks"] = (large,)
    for name, (case, *arguments) in cases.items():
        if run.is_chosen(name):
            try:
                yield f"{name}: {case(run, *arguments)}", []
            except (AssertionError, Failed) as error:
                yield name, [str(error)]


def ran(run, options, *program, codes=(0,)):
    """The command's answer, and the program's output."""
    words = ["phantom", "run", "--once", "--json", *options, "--", run.python, *program]
    with tempfile.TemporaryDirectory() as marks:
        done = run.command(*words, codes=codes, seconds=300, MARKS=marks, OMP_NUM_THREADS="1")
    return json.loads(done.stdout), done.stderr


def torchrun(ranks, way):
    """The arguments of Python that start a program on each rank."""
    return "-m", "torch.distributed.run", "--nproc-per-node", ranks, PROGRAM, way


def printed(text):
    """The JSON objects of the ranks in a program's output. Ranks may print on the same line."""
    decoder, found, at = json.JSONDecoder(), [], text.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(text, at)
            found.append(value)
        except json.JSONDecodeError:
            end = at + 1
        at = text.find("{", end)
    return sorted((value for value in found if "rank" in value), key=lambda value: value["rank"])


def on_ranks(run, way, ranks):
    """Real processes on GPUs of their own."""
    answer, text = ran(run, ["--gpus", ranks], *torchrun(ranks, way))
    counted = printed(text)
    assert [rank["rank"] for rank in counted] == list(range(ranks)), f"ranks {counted}"
    assert [process["rank"] for process in answer["processes"]] == list(range(ranks)), "not every rank was recorded"
    for rank, process in zip(counted, answer["processes"]):
        for device, of in enumerate(process["devices"]):
            own = device == rank["rank"]
            for ours, theirs in (("peak_allocated_bytes", "peak_allocated"), ("peak_reserved_bytes", "peak_reserved")):
                expected = rank[theirs] if own else 0
                assert of[ours] == expected, f"rank {rank['rank']}, GPU {device}: {ours} is {of[ours]}, not {expected}"
    assert answer["collectives"] > 0, "no collective was recorded"
    fullest = max(gpu["peak_bytes"] for gpu in answer["gpus"])
    assert answer["gpus"][answer["fullest_gpu"]]["peak_bytes"] == fullest, f"{answer['fullest_gpu']} is not the fullest GPU"
    assert answer["fullest_rank"] == answer["fullest_gpu"], f"{answer['fullest_rank']} is not the fullest rank"
    unknown = [call["name"] for call in answer["unanswered"] if call["kind"] != "left out"]
    assert not unknown, f"unanswered calls: {unknown}"
    peaks = [rank["peak_allocated"] for rank in counted]
    assert way not in ("fsdp2", "tensor") or len(set(peaks)) == 1, f"peaks differ: {peaks}"
    parameters = sum(rank.get("parameter_bytes", 0) for rank in counted)
    return f"{max(peaks):,} bytes at the highest peak, {parameters:,} of parameters on all ranks"


def alone(run, way):
    """A single pretended rank has the same memory use as in a real world."""
    answer, text = ran(run, ["--world-size", "8", "--rank", "3"], PROGRAM, way)
    (pretended,) = printed(text)
    ranks = [process["rank"] for process in answer["processes"]]
    assert ranks == [3], f"ranks {ranks}"
    if way not in ("fsdp2", "tensor"):
        return "runs"
    _, text = ran(run, ["--gpus", "8"], *torchrun(8, way))
    among = printed(text)[3]
    assert pretended == among, f"{pretended} alone, but {among} among real ranks"
    return f"{pretended['peak_allocated']:,} bytes, as among real ranks"


def too_many(run):
    """PyTorch reports a missing GPU."""
    _, text = ran(run, ["--gpus", "2"], *torchrun(3, "ddp"), codes=(2,))
    assert "invalid device ordinal" in text, text[-300:]
    return "fails as on real GPUs"


def large(run):
    """One rank of a model that no machine here could hold."""
    answer, text = ran(run, ["--world-size", "64", "--rank", "3"], WORKLOADS / "fsdp2_70b.py")
    counted = json.loads(next(line for line in text.splitlines() if line.startswith('{"parameters"')))
    assert counted["parameters"] > 70e9 and counted["most_host_bytes"] < HOST_BYTES, counted
    # The rank's share of the parameters, their gradients and two moments, in single precision.
    assert counted["peak_allocated"] > 4 * 4 * counted["parameters"] / 64, counted
    peak, ours = counted["peak_allocated"], answer["processes"][0]["devices"][0]["peak_allocated_bytes"]
    assert ours == peak, f"the command's peak is {ours}, PyTorch's {peak}"
    return f"{peak:,} bytes of the GPU and {counted['most_host_bytes']:,} bytes of the host"
