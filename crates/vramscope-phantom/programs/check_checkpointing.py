"""Check the modules that `vramscope fit` checkpoints, for six models and five budgets each.

    check_checkpointing.py --vramscope target/debug/vramscope --python PYTHON [MODEL ...]

A claim that the program fits is checked by a run of the program with these modules checkpointed, in a GPU of the budget's size. The
recomputation is compared with that of other sets of modules: with all sets that recompute less if there are few, else with sets drawn
at random. Sets that fit by their peak of allocated bytes are run in the same GPU. Exits with 1 if a claim is wrong, or if another set
that fits recomputes less by more than a tenth.

    check_checkpointing.py --memory-budget-api ... [MODEL ...]

Compares the choices with those of PyTorch's memory budget for compiled models (`torch._functorch.config.activation_memory_budget`, with the
partitioner of AOTAutograd and without Inductor), at the peaks of allocated bytes that it has. Nothing is checked.
"""

import argparse
import itertools
import json
import os
import pathlib
import random
import subprocess
import sys

PROGRAMS = pathlib.Path(__file__).parent
MODELS = ("gpt2", "gpt2-xl", "llama-1b", "llama-8b", "vit-l", "unet")
# Budgets, as parts of the way from the peak with all blocks checkpointed to that without.
PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
# All sets of blocks are tried if there are at most MOST; else DRAWN of them.
MOST = 1024
DRAWN = 100
# The compared memory budgets of PyTorch, and the models.
API_BUDGETS = (0.7, 0.5, 0.3, 0.1)
API_MODELS = ("gpt2", "llama-1b")
# Larger than what any of the models needs.
MEMORY = 400 << 30
CARD = ("--gpu", "h200")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vramscope", required=True)
    parser.add_argument("--python", default=sys.executable, help="the Python that has PyTorch")
    parser.add_argument("--evaluate", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--partition", metavar="MODEL", help=argparse.SUPPRESS)
    parser.add_argument("--memory-budget-api", action="store_true", help="compare with PyTorch's memory budget")
    parser.add_argument("models", nargs="*", metavar="MODEL")
    arguments = parser.parse_args()
    if arguments.evaluate:
        return evaluate(arguments.evaluate)
    if arguments.partition:
        return partition(arguments.partition)
    if arguments.memory_budget_api:
        for model in arguments.models or API_MODELS:
            compare(arguments, model)
        return None
    wrong = 0
    for model in arguments.models or MODELS:
        wrong += check(arguments, model)
    print(f"{wrong} wrong")
    return sys.exit(wrong > 0)


def check(arguments, model):
    """Prints a line for each budget, and returns the number of wrong answers."""
    evaluator = Evaluator(arguments, model)
    flops, blocks = evaluator.flops, evaluator.blocks
    total = flops[""]
    without, uniform = (run(arguments, model, paths, MEMORY)[0] for paths in ([], blocks))
    share = sum(flops[path] for path in blocks) / total
    print(f"{model}: {gib(without)} without, {gib(uniform)} and {share:.0%} again with all {len(blocks)} blocks")
    wrong = 0
    for part in PARTS:
        budget = int(uniform + part * (without - uniform))
        answer = fit(arguments, model, budget)
        if answer["baseline"]["fits"]:
            print(f"  {gib(budget)}: fits unchanged, because the allocator releases its cache")
            continue
        change = next((change for change in answer["changes"] if change["run"]["fits"]), None)
        if change is None:
            print(f"  {gib(budget)}: no choice found in {answer['runs']} runs")
            wrong += part > PARTS[0]
            continue
        chosen = change["blocks"]
        peak, fits = run(arguments, model, chosen, budget)
        recomputed = sum(flops[path] for path in chosen)
        overhead = peak - evaluator.peak(chosen)
        better, tried = cheaper(arguments, model, evaluator, recomputed / 1.1, budget, overhead)
        ratio = recomputed / min([recomputed, *(sum(flops[path] for path in paths) for paths in better)])
        is_wrong = not fits or bool(better)
        wrong += is_wrong
        print(
            f"  {gib(budget)}: {gib(peak)}, {recomputed / total:.1%} again by {len(chosen)} modules, in {answer['runs']} runs; "
            f"{tried} sets recompute less, {len(better)} fit: {ratio:.2f} times the best"
            f"{'  WRONG' if is_wrong else ''}",
            flush=True,
        )
    evaluator.close()
    return wrong


def compare(arguments, model):
    """Prints the peaks of allocated bytes and the recomputation of all blocks, of PyTorch's memory budget, and of `fit` at its peaks."""
    evaluator = Evaluator(arguments, model)
    flops, blocks = evaluator.flops, evaluator.blocks
    without, uniform = evaluator.peak([]), evaluator.peak(blocks)
    # The bytes in use that are not allocated, with the largest context.
    overhead = run(arguments, model, [], MEMORY)[0] - without
    share = sum(flops[path] for path in blocks) / flops[""]
    print(f"{model}: {gib(without)} without, {gib(uniform)} and {share:.0%} again with all {len(blocks)} blocks")
    for budget, peak, again in partitioned(arguments, model):
        answer = fit(arguments, model, peak + overhead)
        changes = [change for change in answer["changes"] if change["run"]["fits"] and change["blocks"]]
        ours = "no change found"
        if answer["baseline"]["fits"]:
            ours = "fits unchanged"
        elif changes:
            chosen = changes[0]["blocks"]
            recomputed = sum(flops[path] for path in chosen) / flops[""]
            ours = f"{gib(evaluator.peak(chosen))}, {recomputed:.1%} again by {len(chosen)} modules"
        print(f"  memory budget {budget}: {gib(peak)}, {again:.1%} again; fit: {ours}", flush=True)
    evaluator.close()


def partitioned(arguments, model):
    """The budget, the peak of allocated bytes, and the recomputed part of the forward pass of each memory budget of PyTorch."""
    script = [arguments.python, __file__, "--vramscope", arguments.vramscope, "--partition", model]
    command = [arguments.vramscope, "phantom", "run", "--once", *CARD, "--memory", str(MEMORY), "--", *script]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout.splitlines()[0])


def partition(name):
    """The other side of `partitioned`."""
    import torch
    import torch._functorch.config
    from torch._dynamo.backends.common import aot_autograd

    import checkpointing
    from functorch.compile import make_boxed_func, min_cut_rematerialization_partition

    def measured(budget):
        """The peak of a step, and the floating-point operations of both passes."""
        flops = {"forward": 0, "backward": 0}

        def compiler(part):
            def compile(graph, inputs):
                flops[part] += flops_of(graph)
                return make_boxed_func(graph)

            return compile

        torch._dynamo.reset()
        torch._functorch.config.activation_memory_budget = budget
        compilers = {"fw_compiler": compiler("forward"), "bw_compiler": compiler("backward")}
        backend = aot_autograd(**compilers, partition_fn=min_cut_rematerialization_partition)
        compiled = torch.compile(model, backend=backend)
        for _ in range(2):
            torch.cuda.reset_peak_memory_stats()
            checkpointing.step(compiled, batch, optimizer)
        return torch.cuda.max_memory_allocated(), flops

    model, batch, optimizer = checkpointing.build(name)
    _, all = measured(1.0)
    rows = []
    for budget in API_BUDGETS:
        peak, flops = measured(budget)
        rows.append((budget, peak, (flops["backward"] - all["backward"]) / all["forward"]))
    print(json.dumps(rows), flush=True)


def flops_of(graph):
    """The floating-point operations of a graph, by PyTorch's formulas."""
    from torch.fx.node import map_arg
    from torch.utils.flop_counter import flop_registry

    total = 0
    for node in graph.graph.nodes:
        count = flop_registry.get(getattr(node.target, "overloadpacket", None))
        if count is not None:
            arguments, options = (map_arg(each, lambda of: of.meta["val"]) for each in (node.args, node.kwargs))
            total += count(*arguments, **options, out_val=node.meta["val"])
    return total


def cheaper(arguments, model, evaluator, limit, budget, overhead):
    """The sets of blocks that recompute less than `limit` and fit, and the number of sets that were tried."""
    flops, blocks = evaluator.flops, evaluator.blocks
    if 2 ** len(blocks) <= MOST:
        sets = [list(paths) for count in range(len(blocks) + 1) for paths in itertools.combinations(blocks, count)]
    else:
        chance = random.Random(0)
        counts = {count for count in range(len(blocks)) if count * min(flops[path] for path in blocks) < limit}
        most = max(counts)
        # The first ones, those in equal distances, and random ones.
        sets = [blocks[:most], blocks[-most:], blocks[:: -(-len(blocks) // max(most, 1))]]
        sets += [sorted(chance.sample(blocks, most), key=blocks.index) for _ in range(DRAWN)]
    sets = [paths for paths in sets if sum(flops[path] for path in paths) < limit]
    fitting = [paths for paths in sets if evaluator.peak(paths) + overhead <= budget]
    fitting.sort(key=lambda paths: sum(flops[path] for path in paths))
    return [paths for paths in fitting[:3] if run(arguments, model, paths, budget)[1]], len(sets)


class Evaluator:
    """A process that measures sets of checkpointed modules, each with one step of the same model."""

    def __init__(self, arguments, model):
        card = ("--once", *CARD, "--memory", str(MEMORY))
        script = (arguments.python, __file__, "--vramscope", arguments.vramscope, "--evaluate", model)
        command = [arguments.vramscope, "phantom", "run", *card, "--", *script]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.known = {}
        facts = json.loads(self.process.stdout.readline())
        self.flops, self.blocks = facts["flops"], facts["blocks"]

    def peak(self, paths):
        """The peak of allocated bytes."""
        key = tuple(paths)
        if key not in self.known:
            self.known[key] = self.measured(paths)
        return self.known[key]

    def measured(self, paths):
        self.process.stdin.write(json.dumps(paths) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def evaluate(name):
    """The other side of `Evaluator`."""
    import functools

    import torch
    from torch.utils.checkpoint import checkpoint
    from torch.utils.flop_counter import FlopCounterMode

    import checkpointing

    model, batch, optimizer = checkpointing.build(name)
    modules = {path: module for path, module in model.named_modules() if path}
    parents = (torch.nn.ModuleList, torch.nn.Sequential)
    blocks = [path for path in modules if isinstance(modules.get(path.rpartition(".")[0]), parents)]
    counter = FlopCounterMode(display=False)
    # The counter sees the forward pass only.
    with counter:
        model(batch())
    flops = {path: counted(counter, model, path) for path in ["", *blocks]}
    checkpointing.step(model, batch, optimizer)
    print(json.dumps({"flops": flops, "blocks": blocks}), flush=True)
    forwards = {path: module.forward for path, module in modules.items()}
    for line in sys.stdin:
        for path, forward in forwards.items():
            modules[path].forward = forward
        for path in json.loads(line):
            modules[path].forward = functools.partial(checkpoint, forwards[path], use_reentrant=False)
        torch.cuda.reset_peak_memory_stats()
        checkpointing.step(model, batch, optimizer)
        print(torch.cuda.max_memory_allocated(), flush=True)


def counted(counter, model, path):
    """The floating-point operations of a module."""
    name = ".".join(filter(None, (type(model).__name__, path)))
    return sum(counter.get_flop_counts().get(name, {}).values())


def fit(arguments, model, budget):
    """The answer of `fit`, and the number of its runs."""
    card = [*CARD, "--memory", str(MEMORY), "--budget", str(budget), "--only", "activation_checkpointing"]
    program = [arguments.python, str(PROGRAMS / "checkpointing.py"), model]
    command = [arguments.vramscope, "fit", "--json", *card, "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    assert done.returncode in (0, 1), done.stderr
    return {**json.loads(done.stdout), "runs": sum(line.startswith("run ") for line in done.stderr.splitlines())}


def run(arguments, model, paths, memory):
    """The peak of all bytes in use with the largest context, and whether the program fits in `memory`."""
    card = ["--json", "--once", *CARD, "--memory", str(memory)]
    program = [arguments.python, str(PROGRAMS / "checkpointing.py"), model]
    environment = {**os.environ, "CHECKPOINT": ",".join(paths)}
    command = [arguments.vramscope, "phantom", "run", *card, "--", *program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, env=environment)
    assert done.returncode in (0, 1), done.stderr
    answer = json.loads(done.stdout)
    gpu = answer["gpus"][0]
    spread = answer["context_high_bytes"] - answer["context_bytes"]
    return gpu["peak_bytes"] + spread, answer["fits"]


def gib(size):
    return f"{size / 2**30:.2f} GiB"


if __name__ == "__main__":
    main()
