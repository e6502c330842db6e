"""Runs the public tests of gpumemprof and stormlog against vramscope.

    vramscope phantom run --once -- python python/tests/peers/check.py [FOLDER]

Downloads both packages' sources from PyPI into FOLDER, or uses those already there, and runs every test with imports
redirected to vramscope (`names.py`). Prints each test by name: passed, skipped, or differs, with the reason from
`differences.toml`. Exits with code 1 if a test outside that list fails, or a listed test passes. It needs PyTorch,
pytest, and a real or phantom GPU.
"""

import ast
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from pathlib import Path

import tomllib
from names import MODULES, ours

HERE = Path(__file__).parent
DIFFERENCES = tomllib.loads((HERE / "differences.toml").read_text())
PACKAGES = ("gpumemprof", "stormlog")
# The reasons used so far.
USED = set()
ROOTS = (*PACKAGES, "tfmemprof", "examples", "scripts")


def sources(folder, name, release):
    """Unpacks only the tests of a release, so that its own modules cannot be imported."""
    at = folder / name
    if not at.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary", ":all:"]
        subprocess.run([*download, "--dest", folder, f"{name}=={release}"], check=True)
        (archive,) = folder.glob(f"{name.replace('-', '?')}-{release}.tar.gz")
        with tarfile.open(archive) as tar:
            for member in tar.getmembers():
                member.path = member.path.partition("/")[2]
                if member.path == "pytest.ini" or member.path.startswith("tests/"):
                    tar.extract(member, at, filter="data")
    return at


def imports(tree):
    """Returns all imports of a file: a module, and a name in it or `None`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((alias.name, None) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("importorskip", "import_module"):
            yield from ((arg.value, None) for arg in node.args[:1] if isinstance(arg, ast.Constant))


def is_here(package, module, name):
    """Whether an import has a counterpart. The bare package does not count: all of the peers' files import it."""
    root, _, module = module.partition(".")
    if root != package or module not in MODULES:
        return False
    return module != "" if name is None else ours(MODULES[module], name) is not None


def run(package, at, files, outcomes):
    """Runs all tests of some files and returns their outcomes."""
    environment = {**os.environ, "PEERS_PACKAGE": package, "PEERS_OUTCOMES": str(outcomes)}
    environment["PYTHONPATH"] = os.pathsep.join([str(HERE), os.environ.get("PYTHONPATH", "")])
    options = ["-q", "-p", "names", "-p", "no:cacheprovider", "-p", "no:vramscope", "--continue-on-collection-errors"]
    with open(outcomes.with_suffix(".txt"), "w", encoding="utf-8") as said:
        subprocess.run([sys.executable, "-m", "pytest", *options, *files], cwd=at, env=environment, stdout=said)
    return [json.loads(line) for line in outcomes.read_text().splitlines()]


def count(tree):
    """Counts the test functions in a file."""
    return sum(
        isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.startswith("test")
        for node in ast.walk(tree)
    )


def reason(package, test, said):
    """Returns the reason why a test differs, by the test's name or by a missing name that it uses."""
    for difference in DIFFERENCES[package]["tests"]:
        for name in difference["names"]:
            if test.partition("[")[0].endswith(name):
                USED.add(name)
                return difference["why"]
    missing = re.search(r"(?:no counterpart: |No module named '|names\.(?!NoCounterpart))([\w.]+)", said)
    return missing and absent(missing.group(1))


def absent(name):
    """Returns the reason for a missing module or name like `stormlog.jax.profiler`, by the longest listed prefix."""
    parts = name.split(".")
    for end in range(len(parts), 0, -1):
        path = ".".join(["PACKAGE" if part in PACKAGES else part for part in parts[:end]])
        if path in DIFFERENCES["absent"]:
            USED.add(path)
            return DIFFERENCES["absent"][path]
    return None


def check(package, folder, name, release):
    """Prints the outcome of each test of a release; returns the number of unexpected outcomes."""
    at = sources(folder, name, release)
    files, counts, reasons, unexpected = [], Counter(), Counter(), []
    print(f"== {name} {release}")

    def differs(test, why, said, number=1):
        print(f"differs  {test} - {why}")
        counts["differs"] += number
        reasons[why] += number
        if why is None:
            unexpected.append(f"{test}: {said}")

    for path in sorted(at.glob("tests/**/test_*.py")):
        tree, file = ast.parse(path.read_text(encoding="utf-8")), str(path.relative_to(at))
        used = [(module, name) for module, name in imports(tree) if module.partition(".")[0] in ROOTS]
        if any(is_here(package, *imported) for imported in used):
            files.append(file)
            continue
        # None of its tests uses anything that exists here.
        missing = max((module for module, _ in used), key=lambda module: module.count("."), default="repository")
        why = reason(package, file, f"no counterpart: {missing}")
        differs(f"{file} ({count(tree)} tests)", why, missing, count(tree))
    with tempfile.TemporaryDirectory() as scratch:
        outcomes = run(package, at, files, Path(scratch) / "outcomes")
    for outcome in outcomes:
        test, kind, said = outcome["test"], outcome["outcome"], outcome["said"]
        if kind != "failed":
            print(f"{kind:8} {test}{f' - {said}' if said else ''}")
            counts[kind] += 1
        elif "::" in test:
            differs(test, reason(package, test, said), said)
        else:
            number = count(ast.parse((at / test).read_text(encoding="utf-8")))
            differs(f"{test} ({number} tests)", reason(package, test, said), said, number)
    print(f"\n{name} {release}: {', '.join(f'{number} {kind}' for kind, number in sorted(counts.items()))}")
    for why, number in reasons.most_common():
        print(f"{number:6}  {why}")
    for test in unexpected:
        print(f"not expected: {test}")
    return len(unexpected)


def main():
    folder = Path(sys.argv[1] if len(sys.argv) > 1 else "target/peers")
    unexpected = sum(check(package, folder, **DIFFERENCES[package]["source"]) for package in PACKAGES)
    listed = [difference for package in PACKAGES for difference in DIFFERENCES[package]["tests"]]
    names = {name for difference in listed if not difference.get("may_pass") for name in difference["names"]}
    for name in sorted((names | set(DIFFERENCES["absent"])) - USED):
        print(f"listed, and no test differs for it: {name}")
        unexpected += 1
    return 1 if unexpected else 0


if __name__ == "__main__":
    sys.exit(main())
