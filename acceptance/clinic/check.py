"""The report says the right cause of programs whose labels were found by experiment, and nothing of those without a problem.

`programs/NAME` has a program, its recording, and `label.json`: the class of its problem, lines that lead to it, its bytes, and changes that help
or do not, each of which was run; `fixes` has the names in JSON of the fixes that say one of these changes. A row has the first sentence of the report, and whether its class, line and bytes are those of the label.
With `--verify`, the labels themselves are tried again: every change is applied and run on a phantom GPU, and so is the setting that the report
advises.
"""

import json
import pathlib
import tempfile

PROGRAMS = pathlib.Path(__file__).with_name("programs")
NEEDS = ()
MINUTES = 0.5
IN_TEST = "every release"

# The causes in JSON that are right for each class of label.
CAUSES = {of: set(causes) for of, causes in json.loads(pathlib.Path(__file__).with_name("causes.json").read_text()).items()}
# The part by which bytes may differ from the label's.
TOLERANCE = 0.02


def options(parser):
    """The option of this check."""
    parser.add_argument(
        "--verify", action="store_true", help="run every change of the labels, and the advised setting (an hour)"
    )


def check(run):
    """Compares the report of each recording with its label; the last row has the sums."""
    sums = {
        "programs": 0,
        "with a cause": 0,
        "first sentence": 0,
        "line": 0,
        "bytes": 0,
        "advice": 0,
        "false alarms": 0,
    }
    for folder in sorted(path for path in PROGRAMS.iterdir() if run.is_chosen(path.name)):
        label = json.loads((folder / "label.json").read_text())
        recording = folder / "recording.pickle.gz"
        devices = run.json("report", "--json", recording)["devices"]
        sentence = first_sentence(run.command("report", recording).stdout)
        verdict = judged(label, devices, sentence)
        # Lines and bytes are figures of the table: labels count some of them in other units, such as epochs instead of steps.
        wrong = [f"{what}: {why}" for what, why in verdict.items() if why and what in ("first sentence", "advice")]
        others = [what for what in ("line", "bytes") if verdict.get(what)]
        if getattr(run.options, "verify", False):
            wrong += verified(run, folder, label, advised(devices))
        sums["programs"] += 1
        if label["class"] == "none":
            sums["false alarms"] += any(verdict.values())
        else:
            sums["with a cause"] += 1
            for what in ("first sentence", "line", "bytes", "advice"):
                sums[what] += not verdict.get(what)
        yield (
            f"{folder.name} ({label['class']}): {sentence}" + "".join(f" [not the label's {what}]" for what in others),
            wrong,
        )
    yield ", ".join(f"{what} {count}" for what, count in sums.items()), []


def first_sentence(text):
    """The first sentence after the heading of the first device with one."""
    lines = text.split("\n")
    starts = ("Out of memory", "Memory grows", "Leak ", "The peak was")
    first = next((i for i, line in enumerate(lines) if line.startswith(starts)), None)
    if first is None:
        return ""
    paragraph = " ".join(lines[first : first + 4])
    end = paragraph.find(". ")
    return paragraph[: end + 1] if end >= 0 else paragraph


def judged(label, devices, sentence):
    """What is wrong with the report, by subject; texts are empty where it is right."""
    if label["class"] == "none":
        return {"first sentence": "" if sentence.startswith("The peak was") else "a false alarm"}
    named, lines, sizes = conclusions(devices)
    right = CAUSES[label["class"]]
    wrong = {"first sentence": "" if right.intersection(named) else f"{named} instead of {label['class']}"}
    is_line = any(line.split(" ")[0].endswith(tuple(label["lines"])) for line in lines)
    wrong["line"] = "" if is_line or not label["lines"] else f"{lines[:3]} instead of {label['lines']}"
    near = [size for size in sizes if abs(size - label["bytes"]) <= TOLERANCE * label["bytes"]]
    wrong["bytes"] = "" if near else f"{sizes[:4]} instead of {label['bytes']} ({label['bytes_of']})"
    conf = advised(devices)
    useless = {change["conf"] for change in label["useless"] if change.get("conf")}
    wrong["advice"] = f"`{conf}` does not help" if conf in useless else ""
    if label.get("fixes"):
        fixes = [fix["change"] for device in devices for fix in device["fixes"]]
        wrong["advice"] = "" if fixes[:1] and fixes[0] in label["fixes"] else f"{fixes} instead of {label['fixes']}"
    return wrong


def conclusions(devices):
    """The causes that the first sentence names, the lines beside it, and its bytes."""
    for device in devices:
        leaks = device["leaks"]
        grown = [leak["kept_bytes_per_step"] or leak["kept_bytes_per_repetition"] for leak in leaks]
        sizes = [*grown, sum(grown), *(leak["kept_bytes"] for leak in leaks)]
        lines = [shown(leak["line"]) for leak in leaks]
        if device["ooms"]:
            oom = device["ooms"][0]
            main = next((cause for cause in oom["causes"][:1] if cause["decisive"]), None)
            stack = oom.get("stack") or []
            lines += [shown(frame) for frame in stack]
            lines += [holder["key"] for holder in oom["holders"][:5]]
            lines += [shown(pin["line"]) for pin in oom["pinned"] if pin.get("line")]
            sizes += [cause["bytes"] for cause in oom["causes"]] + [oom["causes"][0]["bytes"] if oom["causes"] else 0]
            grows = main and main["cause"] == "rising" and main["bytes_per_step"]
            named = ["leak"] if grows else [main["cause"]] if main else []
            # Beside a leak, the sentence names another cause of at least a quarter of its bytes.
            if main and main["cause"] == "leak":
                others = [
                    c for c in oom["causes"][1:] if c["decisive"] and c["cause"] not in ("leak", "size", "rising")
                ]
                named += [c["cause"] for c in others if 4 * c["bytes"] >= main["bytes"]][:1]
            return named, lines, [*sizes, *([grows] if grows else [])]
        if leaks:
            return ["leak"], lines, sizes
    return [], [], []


def shown(frame):
    """A frame as file:line."""
    if isinstance(frame, str):
        return frame
    return f"{pathlib.PurePath(frame.get('file') or frame.get('filename') or '').name}:{frame['line']}"


def advised(devices):
    """The setting that the report advises for the first failed request; `None` if it advises none."""
    for device in devices:
        best, oom = device["best_setting"], next(iter(device["ooms"]), None)
        if best and oom and best["fits"] and best["more_steps"] != 0:
            main = oom["causes"][0]["cause"] if oom["causes"] and oom["causes"][0]["decisive"] else None
            return None if main in ("leak", "rising") else best["conf"]
    return None


def verified(run, folder, label, conf):
    """What does not come out as the label says when its changes are run again."""
    changes = [(change, True) for change in label["helps"]] + [(change, False) for change in label["useless"]]
    if conf is not None:
        changes.append(({"change": f"advised: {conf}", "conf": conf}, True))
    wrong = []
    for change, helps in changes:
        fits = runs(run, folder, label, change)
        if label["fails"] and fits != helps:
            wrong.append(f"{change['change']}: {'fits' if fits else 'runs out of memory'}")
    return wrong


def runs(run, folder, label, change):
    """Whether the changed program runs to its end."""
    text = (folder / "program.py").read_text()
    for old, new in change.get("replace") or []:
        assert old in text, f"{folder.name}: {old!r} is not in the program"
        text = text.replace(old, new)
    conf = label["conf"] if change.get("conf") is None else change["conf"]
    options = ["--gpu", label["gpu"], "--memory", label["memory"], "--gpus", label["gpus"], *label["options"]]
    with tempfile.TemporaryDirectory() as scratch:
        program = pathlib.Path(scratch) / "program.py"
        program.write_text(text)
        environment = {"PYTORCH_CUDA_ALLOC_CONF": conf} if conf else {}
        return run.phantom(program, options=options, codes=(0, 1), **environment).returncode == 0
