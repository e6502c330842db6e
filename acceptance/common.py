"""Shared parts of the checks: calls of the command, programs on phantom GPUs, and the recorded counters."""

import dataclasses
import functools
import json
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
ROOT = FOLDER.parent
WORKLOADS = FOLDER / "workloads"
# PyTorch's counters of recorded runs: one JSON object for each.
TRUTH = ROOT / "../shared/data/phantom/truth.jsonl"
# Modules that workloads need beside PyTorch.
MODULES = {"generate": ["transformers"], "llama": ["transformers"], "lora": ["transformers", "peft"]}
# Workloads that need more than one GPU.
GPUS = {"two_gpus": 2}
MIB, GIB = 1 << 20, 1 << 30


class Failed(Exception):
    """A command or a program ended with an unexpected exit code."""


@dataclasses.dataclass(eq=False)
class Run:
    """The command and the Python of a run of checks, and the selected cases."""

    vramscope: str
    python: str
    only: list[str]
    options: object = None

    def is_chosen(self, name):
        """Whether a case is selected: without --only, all are."""
        return not self.only or any(text in name for text in self.only)

    @functools.cache
    def has(self, module):
        """Whether the Python with PyTorch has a module."""
        command = [self.python, "-c", "import importlib.util, sys; sys.exit(importlib.util.find_spec(sys.argv[1]) is None)", module]
        return subprocess.run(command, capture_output=True).returncode == 0

    @functools.cached_property
    def release(self):
        """The release of PyTorch, such as `2.11.0+cu130`."""
        command = [self.python, "-c", "import torch; print(torch.__version__)"]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def environment(self):
        """The environment of programs, which can import the modules of `workloads`."""
        return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(WORKLOADS), os.environ.get("PYTHONPATH")]))}

    def command(self, *words, codes=(0, 1, 3), seconds=900, **environment):
        """Runs the command, which must end with one of the exit codes."""
        command = [self.vramscope, *map(str, words)]
        environment = {**self.environment(), **environment}
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=seconds, env=environment)
        except subprocess.TimeoutExpired:
            raise Failed(f"`{' '.join(command)}` still runs after {seconds} seconds") from None
        if done.returncode not in codes:
            raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {(done.stderr or done.stdout)[-2000:].strip()}")
        return done

    def json(self, *words, **options):
        """The JSON that the command prints."""
        return json.loads(self.command(*words, **options).stdout)

    def device(self, recording, *words):
        """The first device in the report of a recording."""
        return self.json("report", "--json", recording, *words)["devices"][0]

    def phantom(self, program, *arguments, options=(), **more):
        """Runs a Python program once on phantom GPUs."""
        words = ["phantom", "run", "--once", *options, "--", self.python, program, *arguments]
        return self.command(*words, **more)


def objects(text):
    """The JSON objects that a program printed, each on a line."""
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def recorded_runs(run):
    """The selected recorded runs of the release of PyTorch: their workload, settings, device and counters."""
    runs = [json.loads(line) for line in TRUTH.read_text().splitlines()]
    return [each for each in runs if each["torch"] == run.release and run.is_chosen(each["file"])]


def loaded(name):
    """The module of a check, and None if there is no check of this name."""
    if not (FOLDER / name / "check.py").is_file():
        return None
    if str(FOLDER) not in sys.path:
        sys.path.insert(0, str(FOLDER))
    return __import__(f"{name}.check", fromlist=["check"])
