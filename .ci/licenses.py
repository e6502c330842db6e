#!/usr/bin/env python3
"""The licenses of the crates and npm packages in the command and in the wheel.

.ci/licenses.py          writes LICENSE-THIRD-PARTY, which releases and wheels contain
.ci/licenses.py WHEEL    checks that the wheel contains the license of each component in its SBOMs
"""

import json
import re
import subprocess
import sys
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "LICENSE-THIRD-PARTY"
# The engine in the page is built from `vramscope-wasm`.
PROGRAMS = ["vramscope-cli", "vramscope-python", "vramscope-wasm"]
LICENSE_FILE = re.compile(r"(licen[cs]e|unlicense|copying|notice|copyright)([-_.].*)?", re.IGNORECASE)
HEAD = """\
vramscope contains the following crates and npm packages, each under its own license. The texts follow the list.

"""


def cargo(*args: str) -> str:
    """The output of cargo for the committed lock file."""
    command = ["cargo", *args, "--locked"]
    return subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates() -> list[dict]:
    """The dependencies of our programs on all systems, as `cargo metadata` describes them."""
    packages = [word for program in PROGRAMS for word in ("--package", program)]
    lines = ["--target", "all", "--edges", "normal,build", "--prefix", "none", "--format", "{p}"]
    tree = {tuple(line.split()[:2]) for line in cargo("tree", *packages, *lines).splitlines() if line}
    known = json.loads(cargo("metadata", "--format-version", "1"))["packages"]
    return [crate for crate in known if crate["source"] and (crate["name"], f"v{crate['version']}") in tree]


def texts_of(crate: dict) -> list[str]:
    """The license texts and notices of a crate, including those of C code in it."""
    folder = Path(crate["manifest_path"]).parent
    files = [file for file in sorted(folder.rglob("*")) if LICENSE_FILE.fullmatch(file.name) and file.is_file()]
    files = [file for file in files if file.suffix not in (".py", ".rs")]
    if not files and "Apache-2.0" in (crate["license"] or ""):
        files = [ROOT / "LICENSE-APACHE"]
    return [file.read_text(encoding="utf-8", errors="replace") for file in files]


def write() -> None:
    """Writes the names and licenses of all packages, and then each text once."""
    rows, owners = [], {}
    page = json.loads((ROOT / "crates/vramscope-viewer/page/licenses.json").read_text())
    packages = [(crate["name"], crate["version"], crate["license"], texts_of(crate)) for crate in crates()]
    packages += [(npm["name"], npm["version"], npm["identifier"], [npm["text"]]) for npm in page]
    for name, version, license, texts in sorted(packages, key=lambda package: package[:2]):
        if not texts:
            sys.exit(f"{name} {version} contains no license text: add a rule for it to {Path(__file__).name}")
        rows.append(f"{name} {version}: {license}\n")
        for text in texts:
            text = "\n".join(line.rstrip() for line in text.strip().splitlines())
            owners.setdefault(text, []).append(f"{name} {version}")
    parts = [f"\n{'=' * 80}\n{', '.join(dict.fromkeys(names))}:\n\n{text}\n" for text, names in owners.items()]
    OUT.write_text(HEAD + "".join(rows) + "".join(parts), encoding="utf-8")


def check(wheel: str) -> None:
    """Fails if a component of the wheel's SBOMs is not in its list of licenses."""
    with zipfile.ZipFile(wheel) as files:
        names = files.namelist()
        (licenses,) = (files.read(name).decode() for name in names if name.endswith(f"/licenses/{OUT.name}"))
        boms = [json.loads(files.read(name)) for name in names if "/sboms/" in name]
    components = {(part["name"], part["version"]) for bom in boms for part in bom["components"]}
    foreign = {part for part in components if not part[0].startswith("vramscope")}
    missing = [f"{name} {version}" for name, version in foreign if f"\n{name} {version}: " not in licenses]
    page = json.loads((ROOT / "crates/vramscope-viewer/page/licenses.json").read_text())
    missing += [npm["name"] for npm in page if (npm["name"], npm["version"]) not in components]
    if missing or len(foreign) < 200:
        sys.exit(f"{wheel}: {len(foreign)} components, without license or component: {', '.join(sorted(missing))}")
    print(f"{wheel}: the licenses of {len(foreign)} components")


if __name__ == "__main__":
    check(sys.argv[1]) if len(sys.argv) > 1 else write()
