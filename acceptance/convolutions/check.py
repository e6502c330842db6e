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
    """The layers of the recording, also with the older functions of cuDNN, then random convolutions."""
    for disabled, kind in ("0", "exact"), ("1", "modeled"):
        # With --json, the program's output is on stderr. Whether it fits is unknown if something is left out.
        options = {"options": ["--json", "--gpu", "a100-80gb"], "codes": (0, 3), "TORCH_CUDNN_V8_API_DISABLED": disabled}
        done = run.phantom(PROGRAM, "layers", **options)
        *layers, version = objects(done.stderr)
        answer = json.loads(done.stdout)
        if version["cudnn"] >= 90800:
            wrong = [f"{ours}, not {theirs}" for ours, theirs in zip(layers, RECORDED, strict=True) if ours != theirs]
        else:
            names = [call["name"] for call in answer["unanswered"] if call["kind"] == "left out"]
            wrong = [] if any("cuDNN" in name for name in names) else ["the verdict does not name cuDNN"]
            kind = "at_least"
        if answer["certainty"]["kind"] != kind:
            wrong.append(f"{answer['certainty']}, not {kind}")
        yield f"cuDNN {version['cudnn']}, {kind}: workspaces of recorded layers", wrong
    yield measured(run)
    count = getattr(run.options, "count", 20)
    for number, card in enumerate(CARDS):
        if not run.is_chosen(card):
            continue
        lines = objects(run.phantom(PROGRAM, "random", number, count, options=["--gpu", card]).stdout)
        wrong = [f"{line['failed']}: {line['error']}" for line in lines if "failed" in line]
        if not any(line.get("convolutions") == count for line in lines):
            wrong.append("the program did not come to its end")
        yield f"{count} random convolutions on {card}", wrong


def measured(run):
    """With `torch.backends.cudnn.benchmark`, the peak is a range."""
    command = ["phantom", "run", "--json", "--gpu", "a100-80gb", "--", run.python, PROGRAM, "measured"]
    done = run.command(*command, codes=(0, 3))
    certainty = json.loads(done.stdout)["certainty"]
    (program,) = objects(done.stderr)
    expected = "between" if program["cudnn"] >= 90800 else "at_least"
    wrong = [] if certainty["kind"] == expected else [f"{certainty}, not {expected}"]
    if expected == "between" and not any("program.py" in reason["text"] for reason in certainty["basis"]):
        wrong.append(f"{certainty['basis']} does not name the program")
    return "plans that PyTorch measures", wrong
