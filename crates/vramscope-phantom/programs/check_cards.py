"""Hold what `phantom run` says of cards against runs on them, and against a replay of the recording.

    check_cards.py --vramscope target/debug/vramscope --python PYTHON

A program that does not fit on the card that is asked for is said to fit on another, the smallest: there it has to fit, and on the
next smaller one that PyTorch has kernels for it must not; and the replay of the recording has to say both. Ends with 1 where it is
not so.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAM = pathlib.Path(__file__).parent / "layers.py"
# Sizes itself by what is free.
CACHE = pathlib.Path(__file__).parent / "paged_cache.py"
# On which card the program is tried first, and how many layers it has.
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
        print(f"a cache of what is free on {card}: {'; '.join(wrong) or 'holds'}", flush=True)
    sys.exit(failed > 0)


def fits_with(arguments, command):
    """Whether it fits; None where it came to no end, for want of kernels."""
    done = subprocess.run([arguments.vramscope, *command], capture_output=True, text=True, timeout=300)
    assert done.returncode in (0, 1, 2), done.stderr
    return [True, False, None][done.returncode], done.stdout


def check_cache(arguments, card, mib):
    """What does not hold of a program that takes what is free beside `mib` of weights, in words."""

    def run(card, *options):
        program = [arguments.python, str(CACHE), str(mib)]
        return fits_with(arguments, ["phantom", "run", "--json", "--gpu", card, *options, "--", *program])

    answer = json.loads(run(card)[1])
    smallest = answer["smallest_gpu"]
    if smallest is None or not answer["asked_memory_at"]:
        return [f"it fits on no card, or was not seen to ask: {answer['asked_memory_at']}"]
    wrong = []
    if not run(smallest["name"], "--once")[0]:
        wrong.append(f"it does not fit on {smallest['name']}, which was said to be the smallest")
    if not (mib << 20) < smallest["total_bytes"] < (mib + (4 << 10)) << 20:
        wrong.append(f"{smallest['name']} is said to be the smallest")
    return wrong


def check(arguments, card, layers):
    """What does not hold, in words."""

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
        return [f"it was to run out of memory, and fits: {answer['fits']}"]
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/run.pickle"
        there, out = run(smallest["name"], "--once", "--record", recording)
        overhead = json.loads(out)["context_high_bytes"]
        if not there:
            wrong.append(f"it does not fit on {smallest['name']}, which was said to be the smallest")
        by_memory = sorted(cards, key=lambda card: (card["total_bytes"], card["name"]))
        smaller = by_memory[: [card["name"] for card in by_memory].index(smallest["name"])]
        # What the smaller ones lack is memory, or kernels: the first that has kernels lacks memory.
        for card in reversed(smaller):
            here, out = run(card["name"], "--once")
            if here is None:
                continue
            if here:
                wrong.append(f"it fits on {card['name']}, which is smaller than {smallest['name']}")
            context = json.loads(out)["context_high_bytes"]
            if fits(["replay", recording, "--gpu", card["name"], "--overhead", str(context)])[0]:
                wrong.append(f"the replay fits on {card['name']}, and the run does not")
            break
        if not fits(["replay", recording, "--gpu", smallest["name"], "--overhead", str(overhead)])[0]:
            wrong.append(f"the replay does not fit on {smallest['name']}, and the run does")
    return wrong


if __name__ == "__main__":
    main()
