"""Checks the manifests in this folder: they are valid YAML, and their containers use existing options of the command."""

import pathlib
import subprocess
import sys

import yaml

HERE = pathlib.Path(__file__).parent


def options(command):
    """The options of a vramscope command."""
    text = subprocess.run(["target/debug/vramscope", command, "--help"], capture_output=True, text=True, check=True).stdout
    return {word.rstrip(",") for word in text.split() if word.startswith("--")}


def check(words, where):
    command = next(word for word in words if word.startswith("fleet-"))
    unknown = {word for word in words if word.startswith("--")} - options(command)
    if unknown:
        sys.exit(f"{where}: {command} has no {', '.join(sorted(unknown))}")


started = 0
for document in yaml.safe_load_all((HERE / "kubernetes.yaml").read_text()):
    if document["kind"] == "Deployment":
        for container in document["spec"]["template"]["spec"]["containers"]:
            check(container["args"], "kubernetes.yaml")
            started += 1
for service in yaml.safe_load((HERE / "compose.yaml").read_text())["services"].values():
    check(" ".join(service["command"]).split(), "compose.yaml")
    started += 1
assert started == 4, started
print("4 commands of kubernetes.yaml and compose.yaml use existing options")
