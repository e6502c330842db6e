"""Check the GPUs that `phantom run` recommends against runs on them, and against a replay of the recording.

    check_cards.py --vramscope target/debug/vramscope --python PYTHON

`phantom run` names the smallest GPU for a program that does not fit on the requested one. The program has to fit on the named GPU and
not on the next smaller one that PyTorch has kernels for. The replay of the recording has to agree. Exits with 1 if a check fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).parent / "layers.py"
# A program that sizes its cache by the free memory.
CACHE = pathlib.Path(__file__).parent / "paged_cache.py"
# The GPU of the first attempt, and the number of layers.
TRIED = [("rtx4060", 36), ("a100-40gb", 180)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    arguments = parser.parse_args()
    failed = 0
    for card, layers in TRIED:
        wrong = check(arguments, card, layers)
        failed += bool(wrong)
        print(f"{layers} layers on {card}: {'; '.join(wrong) or 'holds'}", flush=True)
    for card in ["rtx4060", "a100-80gb"]:
        wrong = check_cache(arguments, card, 17 << 10)
        failed += bool(wrong)
        print(f"a cache sized by the free memory on {card}: {'; '.join(wrong) or 'holds'}", flush=True)
    sys.exit(failed > 0)


def fits_with(arguments, command):
    """Whether the program fits, and the output. None instead of a bool if it did not finish, because kernels are missing."""
    done = subprocess.run([arguments.vramscope, *command], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 2), done.stderr
    return [True, False, None][done.returncode], done.stdout


def check_cache(arguments, card, mib):
    """The failed checks, in words, for a program with `mib` of weights and a cache of the free memory."""

    def run(card, *options):
        program = [arguments.python, str(CACHE), str(mib)]
        return fits_with(arguments, ["phantom", "run", "--json", "--gpu", card, *options, "--", *program])

    answer = json.loads(run(card)[1])
    smallest = answer["smallest_gpu"]
    if smallest is None or not answer["asked_memory_at"]:
        return [f"no GPU fits, or no memory query was recorded: {answer['asked_memory_at']}"]
    wrong = []
    if not run(smallest["name"], "--once")[0]:
        wrong.append(f"it does not fit on {smallest['name']}, the recommended GPU")
    if not (mib << 20) < smallest["total_bytes"] < (mib + (4 << 10)) << 20:
        wrong.append(f"{smallest['name']} is the wrong recommendation")
    return wrong


def check(arguments, card, layers):
    """The failed checks, in words."""

    def fits(command):
        return fits_with(arguments, command)

    def run(card, *options):
        program = [arguments.python, str(PROGRAM), str(layers)]
        return fits(["phantom", "run", "--json", "--gpu", card, *options, "--", *program])

    cards = json.loads(fits(["phantom", "list", "--json"])[1])
    wrong = []
    did_fit, out = run(card)
    answer = json.loads(out)
    smallest = answer["smallest_gpu"]
    if did_fit or smallest is None:
        return [f"it should run out of memory, but fits: {answer['fits']}"]
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/run.pickle"
        there, out = run(smallest["name"], "--once", "--record", recording)
        overhead = json.loads(out)["context_high_bytes"]
        if not there:
            wrong.append(f"it does not fit on {smallest['name']}, the recommended GPU")
        by_memory = sorted(cards, key=lambda card: (card["total_bytes"], card["name"]))
        smaller = by_memory[: [card["name"] for card in by_memory].index(smallest["name"])]
        # The smaller GPUs lack memory or kernels. The first one with kernels lacks memory.
        for card in reversed(smaller):
            here, out = run(card["name"], "--once")
            if here is None:
                continue
            if here:
                wrong.append(f"it fits on {card['name']}, which is smaller than {smallest['name']}")
            context = json.loads(out)["context_high_bytes"]
            if fits(["replay", recording, "--gpu", card["name"], "--overhead", str(context)])[0]:
                wrong.append(f"the replay fits on {card['name']}, but the run does not")
            break
        if not fits(["replay", recording, "--gpu", smallest["name"], "--overhead", str(overhead)])[0]:
            wrong.append(f"the replay does not fit on {smallest['name']}, but the run does")
    return wrong


if __name__ == "__main__":
    main()
