"""Measure a model on a phantom GPU for check.py.

    program.py evaluate MODEL     reads lists of modules to checkpoint; prints the peak of allocated bytes of a step for each
    program.py partition MODEL    prints the peak and the recomputation for budgets of PyTorch's memory budget
"""

import functools
import json
import sys

import checkpointing
import torch
import torch._functorch.config
from functorch.compile import make_boxed_func, min_cut_rematerialization_partition
from torch._dynamo.backends.common import aot_autograd
from torch.fx.node import map_arg
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode, flop_registry

# The compared memory budgets of PyTorch.
API_BUDGETS = (0.7, 0.5, 0.3, 0.1)


def evaluate(name):
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


def partition(name):
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
    total = 0
    for node in graph.graph.nodes:
        count = flop_registry.get(getattr(node.target, "overloadpacket", None))
        if count is not None:
            arguments, options = (map_arg(each, lambda of: of.meta["val"]) for each in (node.args, node.kwargs))
            total += count(*arguments, **options, out_val=node.meta["val"])
    return total


if __name__ == "__main__":
    {"evaluate": evaluate, "partition": partition}[sys.argv[1]](sys.argv[2])
