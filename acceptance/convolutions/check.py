"""Convolutions allocate the workspaces of a recording from a real card, and random ones run on every kind of card.

The sizes are those of the recording in https://github.com/JasperSolt/EoR_NN (snapshot.pickle). cuDNN before 9.8 does not answer without a
GPU; then the verdict names the workspaces that are left out.
"""

import json
import pathlib

from common import objects

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ()
MINUTES = 0.5
IN_TEST = "every release"
RECORDED = [
    {"forward": [82880], "backward": [50168]},
    {"forward": [51328], "backward": [84032]},
    {"forward": [205056], "backward": [204928]},
]
CARDS = ["a100-80gb", "h100-80gb", "t4", "rtx3090", "rtx5090", "b200"]


def options(parser):
    """The number of random convolutions on each card."""
    parser.add_argument("--count", type=int, default=20, help="random convolutions on each card (default: %(default)s)")


def check(run):
    """The layers of the recording, then random convolutions."""
    done = run.phantom(PROGRAM, "layers", options=["--json", "--gpu", "a100-80gb"])
    # With --json, the program's output is on stderr.
    *layers, version = objects(done.stderr)
    left_out = [call["name"] for call in json.loads(done.stdout)["unanswered"] if call["kind"] == "left out"]
    if version["cudnn"] >= 90800:
        wrong = [f"{ours}, not {theirs}" for ours, theirs in zip(layers, RECORDED, strict=True) if ours != theirs]
        wrong += [f"left out: {name}" for name in left_out]
    else:
        wrong = [] if any("cuDNN" in name for name in left_out) else ["the verdict does not name cuDNN"]
    yield f"cuDNN {version['cudnn']}: workspaces of recorded layers", wrong
    count = getattr(run.options, "count", 20)
    for number, card in enumerate(CARDS):
        if not run.is_chosen(card):
            continue
        lines = objects(run.phantom(PROGRAM, "random", number, count, options=["--gpu", card]).stdout)
        wrong = [f"{line['failed']}: {line['error']}" for line in lines if "failed" in line]
        if not any(line.get("convolutions") == count for line in lines):
            wrong.append("the program did not come to its end")
        yield f"{count} random convolutions on {card}", wrong
