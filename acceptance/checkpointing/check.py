"""The modules that `vramscope fit` checkpoints fit the budget, and no other set that fits recomputes much less.

For six models and five budgets each, a claim that the program fits is checked by a run of the program with these modules checkpointed, in a
GPU of the budget's size. The recomputation is compared with that of other sets of modules: with all sets that recompute less if there are
few, else with sets drawn at random. Sets that fit by their peak of allocated bytes are run in the same GPU. An answer is wrong if another
set that fits recomputes less by more than a tenth.

With --memory-budget-api, the choices are compared with those of PyTorch's memory budget for compiled models
(`torch._functorch.config.activation_memory_budget`, with the partitioner of AOTAutograd and without Inductor), at the peaks of allocated
bytes that it has. Nothing is checked then.
"""

import itertools
import json
import pathlib
import random
import subprocess

from common import GIB, WORKLOADS

PROGRAM = pathlib.Path(__file__).with_name("program.py")
MODEL = WORKLOADS / "checkpointing.py"
NEEDS = ()
MINUTES = 0
IN_TEST = "by hand"

MODELS = ("gpt2", "gpt2-xl", "llama-1b", "llama-8b", "vit-l", "unet")
# Budgets, as parts of the way from the peak with all blocks checkpointed to that without.
PARTS = (0.1, 0.3, 0.5, 0.7, 0.9)
# All sets of blocks are tried if there are at most MOST; else DRAWN of them.
MOST = 1024
DRAWN = 100
# The models that are compared with PyTorch's memory budget.
API_MODELS = ("gpt2", "llama-1b")
# Larger than any of the models needs.
MEMORY = 400 * GIB
CARD = ("--gpu", "h200")


def options(parser):
    """Adds the options of this check."""
    parser.add_argument("--memory-budget-api", action="store_true", help="compare with PyTorch's memory budget")


def check(run):
    """Tries each model with each budget."""
    is_of_api = run.options.memory_budget_api
    for model in filter(run.is_chosen, API_MODELS if is_of_api else MODELS):
        evaluator = Evaluator(run, model)
        yield from (compared if is_of_api else budgets)(run, model, evaluator)
        evaluator.close()


def budgets(run, model, evaluator):
    """A row for each budget."""
    flops, blocks = evaluator.flops, evaluator.blocks
    total = flops[""]
    without, uniform = (changed(run, model, paths, MEMORY)[0] for paths in ([], blocks))
    share = sum(flops[path] for path in blocks) / total
    print(f"  {model}: {gib(without)} without, {gib(uniform)} and {share:.0%} again with all {len(blocks)} blocks")
    for part in PARTS:
        budget = int(uniform + part * (without - uniform))
        answer = fit(run, model, budget)
        if answer["baseline"]["fits"]:
            yield f"{gib(budget)}: fits unchanged, because the allocator releases its cache", []
            continue
        change = next((change for change in answer["changes"] if change["run"]["fits"]), None)
        if change is None:
            yield f"{gib(budget)}: no choice in {answer['runs']} runs", ["no choice found"] if part > PARTS[0] else []
            continue
        chosen = change["blocks"]
        peak, fits = changed(run, model, chosen, budget)
        recomputed = sum(flops[path] for path in chosen)
        overhead = peak - evaluator.peak(chosen)
        better, tried = cheaper(run, model, evaluator, recomputed / 1.1, budget, overhead)
        ratio = recomputed / min([recomputed, *(sum(flops[path] for path in paths) for paths in better)])
        figures = (
            f"{gib(budget)}: {gib(peak)}, {recomputed / total:.1%} again by {len(chosen)} modules, in {answer['runs']} runs; "
            f"{tried} sets recompute less, {len(better)} fit: {ratio:.2f} times the best"
        )
        wrong = [] if fits else ["it does not fit"]
        yield figures, wrong + [f"{paths} fits, and recomputes less" for paths in better]


def compared(run, model, evaluator):
    """The peaks of allocated bytes and the recomputation of all blocks, of PyTorch's memory budget, and of `fit` at its peaks."""
    flops, blocks = evaluator.flops, evaluator.blocks
    without, uniform = evaluator.peak([]), evaluator.peak(blocks)
    # The bytes in use that are not allocated, with the largest context.
    overhead = changed(run, model, [], MEMORY)[0] - without
    share = sum(flops[path] for path in blocks) / flops[""]
    print(f"  {model}: {gib(without)} without, {gib(uniform)} and {share:.0%} again with all {len(blocks)} blocks")
    partitioned = run.phantom(PROGRAM, "partition", model, options=[*CARD, "--memory", MEMORY])
    for budget, peak, again in json.loads(partitioned.stdout.splitlines()[0]):
        answer = fit(run, model, peak + overhead)
        changes = [change for change in answer["changes"] if change["run"]["fits"] and change["blocks"]]
        ours = "no change found"
        if answer["baseline"]["fits"]:
            ours = "fits unchanged"
        elif changes:
            chosen = changes[0]["blocks"]
            recomputed = sum(flops[path] for path in chosen) / flops[""]
            ours = f"{gib(evaluator.peak(chosen))}, {recomputed:.1%} again by {len(chosen)} modules"
        yield f"memory budget {budget}: {gib(peak)}, {again:.1%} again; fit: {ours}", []


def cheaper(run, model, evaluator, limit, budget, overhead):
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
    return [paths for paths in fitting[:3] if changed(run, model, paths, budget)[1]], len(sets)


class Evaluator:
    """A process that measures sets of checkpointed modules, each with one step of the same model."""

    def __init__(self, run, model):
        words = ["phantom", "run", "--once", *CARD, "--memory", MEMORY, "--", run.python, PROGRAM, "evaluate", model]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL, "text": True}
        self.process = subprocess.Popen([run.vramscope, *map(str, words)], env=run.environment(), **pipes)
        self.known = {}
        facts = json.loads(self.process.stdout.readline())
        self.flops, self.blocks = facts["flops"], facts["blocks"]

    def peak(self, paths):
        """The peak of allocated bytes."""
        key = tuple(paths)
        if key not in self.known:
            self.process.stdin.write(json.dumps(paths) + "\n")
            self.process.stdin.flush()
            self.known[key] = json.loads(self.process.stdout.readline())
        return self.known[key]

    def close(self):
        """Ends the process."""
        self.process.stdin.close()
        self.process.wait()


def fit(run, model, budget):
    """The answer of `fit`, and the number of its runs."""
    options = ["--memory", MEMORY, "--budget", budget, "--only", "activation_checkpointing"]
    done = run.command("fit", "--json", *CARD, *options, "--", run.python, MODEL, model)
    return {**json.loads(done.stdout), "runs": sum(line.startswith("run ") for line in done.stderr.splitlines())}


def changed(run, model, paths, memory):
    """The peak of all bytes in use with the largest context, and whether the program fits in `memory`."""
    card = ["--json", *CARD, "--memory", memory]
    answer = json.loads(run.phantom(MODEL, model, options=card, CHECKPOINT=",".join(paths)).stdout)
    spread = answer["context_high_bytes"] - answer["context_bytes"]
    return answer["gpus"][0]["peak_bytes"] + spread, answer["fits"]


def gib(size):
    """Bytes in GiB, as text."""
    return f"{size / GIB:.2f} GiB"
