"""Rust programs with cudarc run on a phantom GPU.

Releases of cudarc up to 0.16 load all names of the driver when they start, and panic if one is missing. Later ones load each name when it
is called.
"""

import os
import pathlib
import subprocess
import tempfile

from common import Failed

PROGRAM = pathlib.Path(__file__).with_name("program.rs")
NEEDS = ("cargo",)
MINUTES = 0.5
IN_TEST = "2.11"
MANIFEST = """[package]
name = "program"
version = "0.0.0"
edition = "2021"

[features]
early = []

[dependencies.cudarc]
version = "{release}"
default-features = false
features = ["std", "driver", "dynamic-loading", "cuda-12080"]

[workspace]
"""


def check(run):
    """Builds and runs the program with two releases."""
    for release, features in ("0.16", ["--features", "early"]), ("0.19", []):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "src").mkdir()
            (folder / "src/main.rs").write_text(PROGRAM.read_text())
            (folder / "Cargo.toml").write_text(MANIFEST.format(release=release))
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("RUSTC", "CARGO_BUILD"))}
            command = ["cargo", "build", "--quiet", *features]
            built = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment)
            if built.returncode != 0:
                raise Failed(f"cudarc {release} was not built: {built.stderr[-2000:]}")
            done = run.command("phantom", "run", "--once", "--", folder / "target/debug/program", codes=(0, 3))
        wrong = [] if "all numbers are back" in done.stdout else [done.stdout[-1000:] + done.stderr[-1000:]]
        yield f"cudarc {release}", wrong
