"""A program fits on the GPU that `phantom run` recommends, and not on a smaller one.

`phantom run` names the smallest GPU for a program that does not fit on the requested one. The program has to fit on the named GPU and
not on the next smaller one that PyTorch has kernels for. The replay of the recording has to agree.
"""

import json
import pathlib
import tempfile

from common import GIB, MIB

FOLDER = pathlib.Path(__file__).parent
NEEDS = ()
MINUTES = 0
IN_TEST = "every release"

# The GPU of the first attempt, and the number of layers.
TRIED = [("rtx4060", 36), ("a100-40gb", 180)]
# The bytes of the weights beside a cache that is sized by the free memory.
WEIGHTS = 17 * GIB


def check(run):
    """Tries programs of fixed size, and one that sizes its cache by the free memory."""
    cases = [(f"{layers} layers on {card}", layers_on, card, layers) for card, layers in TRIED]
    cases += [(f"a cache sized by the free memory on {card}", cache_on, card) for card in ("rtx4060", "a100-80gb")]
    for name, function, *arguments in cases:
        if run.is_chosen(name):
            yield name, list(function(run, *arguments))


def fits(run, *words):
    """Whether the program fits, and the answer. None instead of a bool if it did not finish, because kernels are missing."""
    done = run.command(*words, codes=(0, 1, 2))
    return [True, False, None][done.returncode], json.loads(done.stdout)


def on(run, card, program, *options):
    """`fits` of a run on a GPU."""
    return fits(run, "phantom", "run", "--json", "--gpu", card, *options, "--", run.python, FOLDER / program[0], *program[1:])


def cache_on(run, card):
    """What is wrong for a program that takes the free memory."""
    program = ["paged_cache.py", WEIGHTS // MIB]
    _, answer = on(run, card, program)
    smallest = answer["smallest_gpu"]
    if smallest is None or not answer["asked_memory_at"]:
        yield f"no GPU fits, or no memory query was recorded: {answer['asked_memory_at']}"
        return
    if not on(run, smallest["name"], program, "--once")[0]:
        yield f"it does not fit on {smallest['name']}, the recommended GPU"
    if not WEIGHTS < smallest["total_bytes"] < WEIGHTS + 4 * GIB:
        yield f"{smallest['name']} is the wrong recommendation"


def layers_on(run, card, layers):
    """What is wrong for a program whose size does not depend on the GPU."""
    program = ["layers.py", layers]
    did_fit, answer = on(run, card, program)
    smallest = answer["smallest_gpu"]
    if did_fit or smallest is None:
        yield f"it should run out of memory, but fits: {answer['fits']}"
        return
    with tempfile.TemporaryDirectory() as folder:
        recording = f"{folder}/run.pickle"

        def replayed(card, answer):
            return fits(run, "replay", "--json", recording, "--gpu", card, "--overhead", answer["context_high_bytes"])[0]

        there, answer = on(run, smallest["name"], program, "--once", "--record", recording)
        if not there:
            yield f"it does not fit on {smallest['name']}, the recommended GPU"
        if not replayed(smallest["name"], answer):
            yield f"the replay does not fit on {smallest['name']}, but the run does"
        cards = sorted(run.json("phantom", "list", "--json"), key=lambda card: (card["total_bytes"], card["name"]))
        names = [card["name"] for card in cards]
        # The smaller GPUs lack memory or kernels. The first one with kernels lacks memory.
        for card in reversed(names[: names.index(smallest["name"])]):
            here, answer = on(run, card, program, "--once")
            if here is None:
                continue
            if here:
                yield f"it fits on {card}, which is smaller than {smallest['name']}"
            if replayed(card, answer):
                yield f"the replay fits on {card}, but the run does not"
            break
