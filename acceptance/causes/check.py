"""The cause that `report` gives for an out-of-memory error is the planted one, and its advice works.

`program.py` plants one cause in each case. The first cause and its bytes must match the program's counts, and the first sentence must name
the bytes. The program, changed as advised, must fit with the predicted peak of reserved bytes.
"""

import ast
import pathlib
import tempfile

from common import GIB, MIB, objects

PROGRAM = pathlib.Path(__file__).with_name("program.py")
NEEDS = ()
MINUTES = 0
IN_TEST = "every release"


def cases():
    """CASES of the program, parsed without importing it, because it imports torch."""
    tree = ast.parse(PROGRAM.read_text()).body
    tables = [node.value for node in tree if isinstance(node, ast.Assign) and node.targets[0].id == "CASES"]
    return ast.literal_eval(tables[0])


def check(run):
    """Tries each case; a row has the case, its bytes, the sentence, the advice, and the predicted and the measured peak."""
    with tempfile.TemporaryDirectory() as folder:
        for case, device in cases().items():
            if run.is_chosen(case):
                row, wrong = checked(run, folder, case, *device)
                yield " | ".join([case, *row]), wrong


def checked(run, folder, case, memory, context, conf):
    """The row of a case, and what is wrong."""
    planted, recording = recorded(run, folder, case, f"{memory}MiB", context, conf)
    if "cause" not in planted:
        return [], ["it did not fail"]
    device = run.device(recording)
    size, text, wrong = shown(planted["bytes"]), run.command("report", recording).stdout, []
    _, starts, text = f"\n{text}".partition("\nOut of memory: ")
    sentence = " ".join(f"{starts}{text}".strip().partition(".\n")[0].split("\n")) + "."
    cause = device["ooms"][0]["causes"][0]
    if (cause["cause"], cause["bytes"]) != (planted["cause"], planted["bytes"]):
        wrong.append(f"planted {planted}, but the report has {cause}")
    if not cause["decisive"] or not starts or size not in sentence:
        wrong.append(f"the first sentence is {sentence!r}")
    advice, promised, change = advised(device)
    if change is None:
        return [size, sentence, advice], [*wrong, "the report has no advice"]
    change = {"memory": f"{memory}MiB", "conf": conf, "options": [], **change}
    after, _ = recorded(run, folder, case, change["memory"], context, change["conf"], *change["options"])
    measured = after.get("peak_reserved_bytes")
    if measured != promised:
        wrong.append(f"{advice} predicts {promised}, but the run gives {after}")
    return [size, sentence, advice, shown(promised), shown(measured or 0)], wrong


def recorded(run, folder, case, memory, context, conf, *options):
    """What the program prints, and the path of its recording."""
    recording = f"{folder}/{case}.pickle"
    device = ["--record", recording, "--memory", memory, "--context", f"{context}MiB"]
    settings = ["--conf", conf] if conf else []
    return objects(run.phantom(PROGRAM, case, *options, options=[*device, *settings]).stdout)[-1], recording


def advised(device):
    """The advice in words, the predicted peak, and the change of the run."""
    if device["remedy"] is not None:
        remedy = device["remedy"]
        change = {"options": ["mended"]}
        if remedy["change"] == "larger_device":
            change = {"memory": f"{remedy['needed_bytes']}B"}
        return remedy["change"], remedy["peak_reserved_bytes"], change
    best = device["best_setting"]
    if best is None or not best["fits"]:
        return "none", None, None
    words = [f"add {item}" for item in best["add"]] + [f"remove {item}" for item in best["remove"]]
    return " and ".join(words), best["peak_reserved_bytes"], {"conf": best["conf"]}


def shown(count):
    """Bytes in the report's format."""
    for unit, name in ((GIB, "GiB"), (MIB, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"
