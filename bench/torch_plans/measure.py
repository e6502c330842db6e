"""Prints the reserved bytes of programs over their bytes in use, with PyTorch's settings and with plans.

    bench/run.py torch_plans [--only NAME]

Each program of `RUNS`, in acceptance/workloads, runs on a phantom GPU: with PyTorch's own allocator and default settings (`default`), with
`expandable_segments:True` (`expandable`), and with vramscope's pool, whose rules have expandable segments too: with a plan of the default
run (`plan`), the same with streams that share its memory (`shared`), and with a plan of its own first steps (`auto`). `replay` is the
prediction of `plan` by `vramscope replay`. If it differs from the run, with `plan` or with `shared`, a line names both numbers. `waits` is
the number of requests in the run of `shared` that made their streams wait for others. All numbers are peaks of the whole run, except
`auto, later`: those of the steps after the plan. `floor` is the best packing of the default run that `vramscope plan` finds. `planned` is
the part of the requested bytes at planned addresses, with `plan` and with `auto`.

The Python needs transformers and peft too. A setting is `NAME=VALUE` after the program's name. If the environment has `CHECK`, the pool runs
in the checking mode.
"""

import argparse
import json
import os
import pathlib
import runpy
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
PROGRAMS = ROOT / "acceptance/workloads"
RUNS = {
    "GPT-2": ["gpt2", "LENGTHS=512", "--iterations", "12"],
    "GPT-2, 4 sequence lengths": ["gpt2", "--iterations", "12"],
    "ResNet-50": ["resnet50", "--iterations", "12"],
    "Llama": ["llama", "LENGTHS=512", "--iterations", "12"],
    "Llama, 6 sequence lengths": ["llama", "--iterations", "12"],
    "LoRA": ["lora", "--iterations", "12"],
    "U-Net": ["unet", "--iterations", "12"],
    "mixture of experts": ["moe", "--iterations", "12"],
    "FSDP2 rank": ["fsdp2", "--iterations", "12"],
    "serving loop": ["serving", "--iterations", "60"],
    "Llama, generation": ["generate"],
}
# Options of `vramscope phantom run`, by program.
PHANTOM = {"fsdp2": ["--world-size", "64", "--rank", "3"]}
EXPANDABLE = "expandable_segments:True"
SECONDS = 900


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", default=ROOT / "target/dist/vramscope", help="another build of the command")
    parser.add_argument("--only", default="", help="only the program of this name, or those whose name contains it")
    arguments = parser.parse_args()
    columns = ["default", "expandable", "plan", "replay", "shared", "auto", "auto, later", "floor", "waits", "planned"]
    print(f"{'program':<28}{'in use':>10}" + "".join(f"{column:>12}" for column in columns))
    for name, program in RUNS.items():
        if name == arguments.only or arguments.only not in RUNS and arguments.only in name:
            with tempfile.TemporaryDirectory() as folder:
                measure(arguments, name, program, folder)


def measure(arguments, name, program, folder):
    default = run(arguments, program, folder, "default", "")
    planned = ask(arguments, "plan", f"{folder}/run.pickle", "-o", f"{folder}/run.plan")
    floors = planned["floors"]
    ask(arguments, "plan", f"{folder}/run.pickle", "-o", f"{folder}/shared.plan", "--share-streams")
    expandable = run(arguments, program, folder, "expandable", EXPANDABLE)
    plans = {}
    for kind in ("plan", "shared"):
        file = {"plan": "run.plan", "shared": "shared.plan"}[kind]
        replay = ["replay", f"{folder}/run.pickle", "--plan", f"{folder}/{file}", "--conf", EXPANDABLE]
        plans[kind] = run(arguments, program, folder, kind, EXPANDABLE), ask(arguments, *replay)["plan"]
    plan, predicted = plans["plan"]
    shared, _ = plans["shared"]
    replay = {**plan, "reserved": predicted["peak_reserved_bytes"]}
    auto = run(arguments, program, folder, "auto", EXPANDABLE)
    ratios = [one["reserved"] / one["in use"] for one in (default, expandable, plan, replay, shared, auto)]
    ratios += [auto["later"] or "", floors["packed_bytes"] / floors["active_bytes"]]
    shown = "".join(f"{ratio:>12.3f}" if ratio else f"{'-':>12}" for ratio in ratios)
    print(
        f"{name:<28}{default['in use'] >> 20:>6,} MiB{shown}{shared['waits']:>12,}{plan['planned']:>7.0%}{auto['planned']:>5.0%}", flush=True
    )
    for kind, (ran, predicted) in plans.items():
        for found, key in (("reserved", "peak_reserved_bytes"), ("waits", "waits")):
            if ran[found] != predicted[key]:
                print(f"    {kind}: {found} {ran[found]:,} in the run, and {predicted[key]:,} in the replay", flush=True)


def ask(arguments, *words):
    """The answer of a command about the first device."""
    done = subprocess.run([arguments.vramscope, *words, "--json"], capture_output=True, text=True, timeout=SECONDS)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["devices"][0]


def run(arguments, program, folder, kind, conf):
    settings = [word for word in program[1:] if "=" in word]
    options = [word for word in program[1:] if "=" not in word]
    command = [arguments.vramscope, "phantom", "run", "--once", *PHANTOM.get(program[0], [])]
    command += ["--", sys.executable, __file__, "--inside", kind, folder, str(PROGRAMS / f"{program[0]}.py"), "--one-thread", *options]
    environment = os.environ | {"PYTORCH_CUDA_ALLOC_CONF": conf} | dict(word.split("=") for word in settings)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS)
    found = [line for line in done.stdout.splitlines() if line.startswith("RESULT ")]
    assert found, f"{program} {kind}: {done.stderr[-2000:]}"
    return json.loads(found[0].removeprefix("RESULT "))


def inside(kind, folder, program, *options):
    """Run a program in this process, and print its peaks."""
    import torch

    pool, later = None, Later()
    if kind == "default":
        torch.cuda.memory._record_memory_history(context=None)
    elif kind in ("plan", "shared", "auto"):
        import vramscope.torch

        plan = {"plan": f"{folder}/run.plan", "shared": f"{folder}/shared.plan", "auto": "auto"}[kind]
        pool = vramscope.torch.use_pool(plan=plan, check="CHECK" in os.environ)
        if kind == "auto":
            hook = sys.modules["torch.optim.optimizer"].register_optimizer_step_post_hook
            hook(lambda *_: later.step(torch.cuda, pool))
    sys.argv = [program, *options]
    runpy.run_path(program, run_name="__main__")
    stats = torch.cuda.memory_stats()
    reserved, in_use = (stats[f"{name}_bytes.all.peak"] for name in ("reserved", "active"))
    result = {"reserved": max(reserved, later.reserved), "in use": max(in_use, later.in_use), "planned": 0, "waits": 0}
    result["later"] = reserved / in_use if later.has_begun else None
    if pool:
        served = pool.plan_use()
        result["waits"] = pool.plan_waits()
        result["planned"] = served["planned"][1] / sum(size for _, size in served.values()) if served else 0
    if kind == "default":
        torch.cuda.memory._dump_snapshot(f"{folder}/run.pickle")
    print("RESULT " + json.dumps(result))


class Later:
    """Resets the peaks after the second step with planned requests, and keeps those before."""

    def __init__(self):
        self.steps, self.has_begun, self.reserved, self.in_use = 0, False, 0, 0

    def step(self, cuda, pool):
        # A step on a phantom GPU takes less time than the search for a plan.
        time.sleep(0.2)
        self.steps += pool.plan_use().get("planned", (0, 0))[0] > 0
        if self.steps == 2 and not self.has_begun:
            self.has_begun = True
            stats = cuda.memory_stats()
            self.reserved, self.in_use = (stats[f"{name}_bytes.all.peak"] for name in ("reserved", "active"))
            cuda.reset_peak_memory_stats()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(*sys.argv[2:])
    else:
        main()
