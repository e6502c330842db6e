"""Check the out-of-memory causes of `report` against the planted ones (causes.py), and its advice against another run.

    check_causes.py --vramscope target/debug/vramscope --python PYTHON [CASE ...]

The first cause and its bytes must match the program's counts, and the first sentence must name the bytes. The program, changed as
advised, must fit with the predicted peak of reserved bytes. Prints one row per case, and exits with 1 if a case fails.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

PROGRAMS = pathlib.Path(__file__).parent
sys.path.insert(0, str(PROGRAMS))


def cases():
    """CASES of causes.py, parsed without importing the module, because it imports torch."""
    import ast

    for node in ast.parse((PROGRAMS / "causes.py").read_text()).body:
        if isinstance(node, ast.Assign) and node.targets[0].id == "CASES":
            return ast.literal_eval(node.value)
    raise AssertionError("causes.py has no CASES")


def shown(count):
    """Bytes in the report's format."""
    for unit, name in ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.2f} {name}"
    return f"{count} B"


class Check:
    def __init__(self, vramscope, python, folder):
        self.vramscope, self.python, self.folder = vramscope, python, folder

    def command(self, *arguments):
        done = subprocess.run([self.vramscope, *arguments], capture_output=True, text=True, timeout=300)
        assert done.returncode in (0, 1), done.stdout + done.stderr
        return done.stdout

    def run(self, case, memory, context, conf, *options):
        """The program's result, and the path of its recording."""
        recording = f"{self.folder}/{case}.pickle"
        device = ["--memory", f"{memory}", "--context", f"{context}MiB"]
        settings = ["--conf", conf] if conf else []
        program = [self.python, str(PROGRAMS / "causes.py"), case, *options]
        out = self.command("phantom", "run", "--once", "--record", recording, *device, *settings, "--", *program)
        said = [json.loads(line) for line in out.splitlines() if line.startswith("{")]
        assert said, out
        return said[-1], recording

    def check(self, case, memory, context, conf):
        """The row of a case, and its failed checks."""
        wrong = []
        said, recording = self.run(case, f"{memory}MiB", context, conf)
        if "cause" not in said:
            return [case, "it did not fail"], ["it did not fail"]
        device = json.loads(self.command("report", "--json", recording))["devices"][0]
        text = self.command("report", recording)
        first = next((line for line in text.splitlines() if line.startswith("Out of memory: ")), "")
        sentences = text[text.find("Out of memory: ") :].split("\n")
        sentence = " ".join(sentences[: 1 + next(i for i, line in enumerate(sentences) if line.endswith("."))])
        cause = device["ooms"][0]["causes"][0]
        if (cause["cause"], cause["bytes"]) != (said["cause"], said["bytes"]):
            wrong.append(f"planted {said}, but the report has {cause}")
        if not cause["decisive"] or not first or shown(said["bytes"]) not in sentence:
            wrong.append(f"the first sentence is {sentence!r}")
        advice, promised, change = self.advice(device)
        if change is None:
            wrong.append("the report has no advice")
            return [case, shown(said["bytes"]), sentence, advice, "", ""], wrong
        after, _ = self.run(
            case, change.get("memory", f"{memory}MiB"), context, change.get("conf", conf), *change.get("options", [])
        )
        measured = after.get("peak_reserved_bytes")
        if measured != promised:
            wrong.append(f"{advice} predicts {promised}, but the run gives {after}")
        return [case, shown(said["bytes"]), sentence, advice, shown(promised), shown(measured or 0)], wrong

    @staticmethod
    def advice(device):
        """The advice in words, the predicted peak, and the options to run with it."""
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


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("cases", nargs="*")
    arguments = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        check = Check(arguments.vramscope, arguments.python, folder)
        for case, device in cases().items():
            if arguments.cases and case not in arguments.cases:
                continue
            row, wrong = check.check(case, *device)
            failed += bool(wrong)
            print(" | ".join(row), flush=True)
            for text in wrong:
                print(f"  WRONG: {text}", flush=True)
    print(f"{failed} cases fail" if failed else "every cause has the right bytes, and every advice works")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
