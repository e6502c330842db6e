"""Applies the changes of `vramscope fit` to an unchanged program, and collects facts about its model and optimizers.

VRAMSCOPE_CHANGES is a JSON object: each key is the name of a method of `Changes`, each value its argument. The methods do what the
lines that `vramscope fit` prints do. The model is the outermost module with most of the first optimizer's parameters. It is
known when the optimizer is created, and modules are changed at that moment.
"""

import functools
import gc
import importlib
import importlib.util
import inspect
import json
import os
import types
import weakref

# The changes that are made when torch is imported.
EARLY = ("optimizer_options", "adam_8bit")

# The changes that are made to each optimizer.
TO_OPTIMIZERS = ("accumulate", "optimizer_in_backward")

# The arguments that PyTorch's Adam and bitsandbytes' Adam share.
ADAM = ("params", "lr", "betas", "eps", "weight_decay", "amsgrad")


class Changes:
    """The changes to one process."""

    def __init__(self, torch, wanted):
        self.torch = torch
        self.wanted = wanted
        self.model = None
        self.about_model = None
        self.optimizers = []
        self.steps = 0
        # The optimizers of single parameters.
        self.split = set()
        # Whether the optimizers of single parameters are being created.
        self.is_splitting = False
        # The names of the changes that took effect.
        self.applied = set()
        self.offloaded = 0
        self.inspection = None

    def prepare(self):
        create = self.torch.optim.Optimizer.__init__

        @functools.wraps(create)
        def created(optimizer, *arguments, **options):
            create(optimizer, *arguments, **options)
            self.optimizer_created(optimizer)

        self.torch.optim.Optimizer.__init__ = created
        for name in EARLY:
            if name in self.wanted:
                getattr(self, name)(self.wanted[name])
        # PyTorch removes this module from its package.
        optimizer = importlib.import_module("torch.optim.optimizer")
        optimizer.register_optimizer_step_post_hook(self.stepped)

    def stepped(self, optimizer, arguments, options):
        if optimizer in self.split:
            return
        self.steps += 1
        if self.inspection is not None:
            self.inspection.stop()

    def optimizer_created(self, optimizer):
        if self.is_splitting:
            return
        self.optimizers.append(
            {"class": type(optimizer).__name__, **{name: optimizer.defaults.get(name) for name in ("foreach", "fused")}}
        )
        for name in TO_OPTIMIZERS:
            if name in self.wanted:
                getattr(self, name)(optimizer)
        if self.model is not None:
            return
        model = model_of(self.torch, [parameter for group in optimizer.param_groups for parameter in group["params"]])
        if model is None:
            return
        self.model = weakref.ref(model)
        self.about_model = about(model)
        for name, value in self.wanted.items():
            if name == "fully_shard":
                self.fully_shard(model, optimizer, value)
            elif name not in EARLY + TO_OPTIMIZERS:
                getattr(self, name)(model, value)

    def facts(self):
        import resource

        return {
            "model": self.about_model,
            "optimizers": self.optimizers,
            "steps": self.steps,
            "applied": sorted(self.applied),
            "offloaded_bytes": self.offloaded,
            "forward": None if self.inspection is None else self.inspection.facts(),
            "has_bitsandbytes": importlib.util.find_spec("bitsandbytes") is not None,
            # Linux counts in KiB.
            "host_bytes": 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        }

    # Changes when torch is imported

    def optimizer_options(self, options):
        """Creates PyTorch's optimizers with these options, if they have them."""
        for optimizer in list(vars(self.torch.optim).values()):
            if isinstance(optimizer, type) and issubclass(optimizer, self.torch.optim.Optimizer):
                known = inspect.signature(optimizer.__init__).parameters
                if all(name in known for name in options):
                    self.create_with(optimizer, options)

    def create_with(self, optimizer, options):
        create = optimizer.__init__

        @functools.wraps(create)
        def created(this, *arguments, **given):
            self.applied.add("optimizer_options")
            create(this, *arguments, **{**given, **options})

        optimizer.__init__ = created

    def adam_8bit(self, _):
        """Creates bitsandbytes' Adam with states of 8 bits instead of PyTorch's Adam."""
        for name in ("Adam", "AdamW"):
            self.create_in_8bit(getattr(self.torch.optim, name), name + "8bit")

    def create_in_8bit(self, optimizer, name):
        def create(of, *arguments, **options):
            if of is not optimizer:
                return object.__new__(of)
            import bitsandbytes

            self.applied.add("adam_8bit")
            known = {key: value for key, value in options.items() if key in ADAM}
            return getattr(bitsandbytes.optim, name)(*arguments, **known)

        optimizer.__new__ = staticmethod(create)

    # Changes to an optimizer

    def accumulate(self, optimizer):
        """Never clears the gradients: each batch finds gradients, like all but the first batch of a step with accumulation."""

        def keep(this, *arguments, **options):
            self.applied.add("accumulate")

        optimizer.zero_grad = types.MethodType(keep, optimizer)
        # Some programs clear the gradients of the model.
        self.torch.nn.Module.zero_grad = keep

    def optimizer_in_backward(self, optimizer):
        """Updates each parameter once its gradient is complete, and frees the gradient."""
        of_parameters = {}
        self.is_splitting = True
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                of_parameters[parameter] = type(optimizer)([{**group, "params": [parameter]}])
        self.is_splitting = False

        def update(parameter):
            of_parameters[parameter].step()
            of_parameters[parameter].zero_grad()

        for parameter in of_parameters:
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(update)

        def count(this, *arguments, **options):
            self.stepped(this, arguments, options)

        optimizer.step = types.MethodType(count, optimizer)
        self.split.update(of_parameters.values())
        self.applied.add("optimizer_in_backward")

    # Changes to the model

    def autocast(self, model, path):
        """Runs the forward pass of the module at `path` in bfloat16."""
        module = model.get_submodule(path)
        module.forward = self.torch.autocast("cuda", dtype=self.torch.bfloat16)(module.forward)
        self.applied.add("autocast")

    def checkpoint(self, model, paths):
        """Keeps only the inputs of the modules at `paths` for the backward pass, which computes their forward pass again."""
        from torch.utils.checkpoint import checkpoint

        without_cache(model)
        for path in paths:
            block = model.get_submodule(path)
            block.forward = functools.partial(checkpoint, block.forward, use_reentrant=False)
        self.applied.add("checkpoint")

    def save_on_cpu(self, model, path):
        """Keeps tensors for the backward pass of the module at `path` in host memory.

        All of them share one buffer of the host, because no kernel computes their values. The GPU's memory is that of PyTorch's
        `save_on_cpu`, whose hooks do the same with a new buffer for each tensor.
        """
        module = model.get_submodule(path)
        forward = module.forward
        host = HostBuffer(self.torch)

        def pack(tensor):
            packed = host.like(tensor)
            packed.copy_(tensor)
            self.offloaded += tensor.numel() * tensor.element_size()
            return tensor.device, packed

        @functools.wraps(forward)
        def offloaded(*arguments, **options):
            saving = self.torch.autograd.graph.save_on_cpu(pin_memory=True)
            saving.pack_hook = pack
            with saving:
                return forward(*arguments, **options)

        module.forward = offloaded
        self.applied.add("save_on_cpu")

    def fully_shard(self, model, optimizer, where):
        """Shards the modules at some paths and the rest of the model over all ranks, and gives the optimizer the sharded parameters."""
        from torch import distributed
        from torch.distributed.fsdp import fully_shard

        if distributed.is_initialized():
            raise RuntimeError("the program already has a process group")
        self.torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
        distributed.init_process_group("nccl")
        names = {parameter: name for name, parameter in model.named_parameters()}
        for path in where["paths"]:
            fully_shard(model.get_submodule(path))
        fully_shard(model.get_submodule(where["path"]))
        sharded = dict(model.named_parameters())
        for group in optimizer.param_groups:
            group["params"] = [sharded[names[each]] if each in names else each for each in group["params"]]
        self.applied.add("fully_shard")

    def inspect(self, model, _):
        """Counts floating-point operations of the model's modules until the first step of an optimizer."""
        self.inspection = Inspection(self.torch, model)


class HostBuffer:
    """Pinned host memory for any tensor, which the next tensor overwrites."""

    def __init__(self, torch):
        self.torch = torch
        self.bytes = None

    def like(self, tensor):
        """Returns a tensor with the size and the data type of `tensor`."""
        length = tensor.numel() * tensor.element_size()
        if self.bytes is None or self.bytes.numel() < length:
            self.bytes = self.torch.empty(length, dtype=self.torch.uint8, pin_memory=True)
        return self.bytes[:length].view(tensor.dtype).view(tensor.size())


class Inspection:
    """Measures the forward passes of a model's modules: floating-point operations, and in the first pass, the bytes that are saved."""

    def __init__(self, torch, model):
        from torch.nn.modules import module as hooks

        self.torch = torch
        self.paths = {id(module): path for path, module in model.named_modules()}
        children = [(module, child) for module in model.modules() for child in module.children()]
        self.listed = {id(child) for module, child in children if is_container(module)}
        self.counter = flop_counter(torch)
        self.saved = None
        self.model = weakref.ref(model)
        # Modules whose forward pass runs: the path, and the numbers at its start.
        self.running = []
        # Operations by path.
        self.flops = {}
        # The paths of modules that the program calls itself.
        self.outermost = {}
        # Bytes of the parameters of modules that have run, by the modules' ids.
        self.parameters = {}
        # The calls of the first pass that saves anything, by path, and the numbers at its end.
        self.calls = {}
        self.end = None
        before = hooks.register_module_forward_pre_hook(self.before)
        after = hooks.register_module_forward_hook(self.after)
        self.hooks = [before, after]

    def before(self, module, arguments):
        if id(module) not in self.paths:
            return
        if not self.running:
            self.counter.__enter__()
            if self.end is None:
                self.saved = self.saved or SavedBytes(self.torch, self.model())
                self.saved.hooks.__enter__()
        self.running.append((self.paths[id(module)], self.counter.total, self.numbers(), self.bytes_of(arguments)))

    def after(self, module, arguments, output):
        if id(module) not in self.paths:
            return
        path, operations, numbers, inputs = self.running.pop()
        self.flops[path] = self.flops.get(path, 0) + self.counter.total - operations
        if self.end is None:
            own = [each for each in module.parameters(recurse=False) if each.requires_grad]
            self.parameters[id(module)] = sum(each.numel() * each.element_size() for each in own)
            if id(module) in self.listed:
                self.calls.setdefault(path, []).append((numbers, self.numbers(), inputs))
        if not self.running:
            self.outermost[path] = sum(parameter.numel() for parameter in module.parameters())
            if self.end is None:
                self.saved.hooks.__exit__(None, None, None)
                self.end = self.numbers() if self.saved.total else None
            self.counter.__exit__(None, None, None)

    def numbers(self):
        """Returns the bytes saved so far, and the bytes of trainable parameters used so far."""
        return self.saved.total, sum(self.parameters.values())

    def bytes_of(self, arguments):
        tensors = [each for each in arguments if isinstance(each, self.torch.Tensor) and each.is_cuda]
        return sum({each.data_ptr(): each.numel() * each.element_size() for each in tensors}.values())

    def stop(self):
        for hook in self.hooks:
            hook.remove()
        self.hooks = []

    def facts(self):
        """Returns the path of the module that the program calls, which has most parameters, and the numbers of all modules."""
        if not self.outermost:
            return None
        saved, parameters = self.end or (0, 0)
        return {
            "path": max(self.outermost, key=self.outermost.get),
            "flops": self.flops,
            "total_flops": self.counter.total,
            "modules": [
                {
                    "path": path,
                    "saved_bytes": [start[0], end[0]],
                    "parameter_bytes": [start[1], end[1]],
                    "input_bytes": inputs,
                }
                for path, [(start, end, inputs), *more] in self.calls.items()
                if not more
            ],
            "saved_bytes": saved,
            "parameter_bytes": parameters,
        }


class SavedBytes:
    """Adds up the bytes that the first forward pass saves for the backward pass: memory of the GPU, each once, without parameters."""

    def __init__(self, torch, model):
        self.total = 0
        self.known = {address(each) for each in [*model.parameters(), *model.buffers()]}
        self.hooks = torch.autograd.graph.saved_tensors_hooks(self.pack, lambda tensor: tensor)

    def pack(self, tensor):
        if tensor.is_cuda and address(tensor) not in self.known:
            # The memory stays live until the backward pass, so its address does not get a second meaning.
            self.known.add(address(tensor))
            self.total += tensor.untyped_storage().nbytes()
        return tensor


def address(tensor):
    """Returns the address of the tensor's memory; 0 if it has none of its own, like a DTensor."""
    try:
        return tensor.untyped_storage().data_ptr()
    except RuntimeError:
        return 0


def flop_counter(torch):
    """Returns a mode that adds up floating-point operations in its field `total`."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils.flop_counter import flop_registry

    class Counter(TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, function, types, arguments=(), options=None):
            output = function(*arguments, **(options or {}))
            count = flop_registry.get(function._overloadpacket)
            if count is not None:
                self.total += count(*arguments, **(options or {}), out_val=output)
            return output

    return Counter()


def model_of(torch, parameters):
    """Returns the outermost module with most of these parameters; None if no module has any."""
    wanted = {id(parameter) for parameter in parameters}
    module = torch.nn.Module
    # The type is asked, because proxies may have another `__class__`.
    modules = [each for each in gc.get_objects() if issubclass(type(each), module) and "_modules" in vars(each)]
    children = {id(child) for each in modules for child in each._modules.values() if child is not None}

    def share(root):
        return sum(parameter.numel() for parameter in root.parameters() if id(parameter) in wanted)

    shares = [(share(each), each) for each in modules if id(each) not in children]
    most, model = max(shares, key=lambda each: each[0], default=(0, None))
    return model if most > 0 else None


def about(model):
    """Returns facts about a model: its class and its parameters by data type."""
    dtypes = {}
    for parameter in model.parameters():
        name = str(parameter.dtype).removeprefix("torch.")
        dtypes[name] = dtypes.get(name, 0) + parameter.numel()
    return {
        "class": type(model).__name__,
        "dtypes": dtypes,
        "uses_cache": any(config.use_cache for config in cache_configs(model)),
    }


def is_container(module):
    """Whether the module is a list or a sequence of modules."""
    return any(of.__name__ in ("ModuleList", "Sequential") for of in type(module).__mro__)


def cache_configs(model):
    """Returns the configurations of transformers' models in the model that turn on a cache of keys and values."""
    configs = [getattr(module, "config", None) for module in model.modules()]
    return [config for config in configs if getattr(config, "use_cache", None) is True]


def without_cache(model):
    """Turns off the cache of keys and values, which checkpointing would fill twice."""
    for config in cache_configs(model):
        config.use_cache = False


def prepare(torch):
    """Prepares the changes of this process; returns None without `vramscope fit`."""
    wanted = os.environ.get("VRAMSCOPE_CHANGES")
    if not wanted or not hasattr(torch, "optim"):
        return None
    changes = Changes(torch, json.loads(wanted))
    changes.prepare()
    return changes
