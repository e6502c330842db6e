"""Support for programs of several processes on phantom GPUs, where kernels compute nothing.

Collectives of objects (`all_gather_object` and similar) compare and add the sizes of pickled objects on the device, and use the
results. Here they compute on the host. Their allocations and messages stay the same.

With VRAMSCOPE_PRETEND_RANKS the process runs as a single rank, and the other ranks do not exist. Then it waits for no other rank, and
collectives of objects return this rank's object for every rank.
"""

import functools
import os
import sys

OBJECTS = [
    "all_gather_object",
    "broadcast_object_list",
    "gather_object",
    "recv_object_list",
    "scatter_object_list",
    "send_object_list",
]


def prepare(torch):
    """Prepares torch. Called after torch was imported, before the program continues."""
    if not (hasattr(torch, "distributed") and torch.distributed.is_available()):
        return
    c10d = torch.distributed.distributed_c10d
    replace(c10d, objects_on_host(torch))
    if os.environ.get("VRAMSCOPE_PRETEND_RANKS"):
        replace(c10d, pretended_objects)
        unbind(c10d)
        pretend_store(torch)
        pretend_gloo(c10d)


def replace(c10d, with_what):
    for name in OBJECTS:
        of_torch = getattr(c10d, name, None)
        if of_torch is not None:
            new = with_what(name, of_torch)
            for module in (c10d, sys.modules["torch.distributed"]):
                setattr(module, name, new)


def objects_on_host(torch):
    """Makes collectives of objects compute on the host."""
    from torch.utils._python_dispatch import TorchDispatchMode
    from torch.utils._pytree import tree_map_only

    aten = torch.ops.aten
    # Operations that move or show data and compute nothing.
    plain = {aten._local_scalar_dense, aten._to_copy, aten.copy_, aten.detach, aten.lift_fresh, aten.resize_, aten.set_}

    def to_host(tensor):
        return tensor.cpu()

    class OnHost(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            # Host tensors that were copied to the device, by device address.
            self.copied = {}

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            kwargs = kwargs or {}
            if func.overloadpacket is aten._to_copy and not args[0].is_cuda:
                result = func(*args, **kwargs)
                self.copied[result.data_ptr()] = args[0]
                return result
            if func.overloadpacket is aten.resize_ and args[0].data_ptr() in self.copied:
                # The old contents stay at the beginning; the resized tensor is copied to the device.
                before = self.copied[args[0].data_ptr()]
                func(*args, **kwargs)
                after = torch.zeros(args[0].shape, dtype=before.dtype)
                after[: before.numel()] = before
                return args[0].copy_(after)
            on_device = []
            tree_map_only(torch.Tensor, lambda t: t.is_cuda and on_device.append(t), (args, kwargs))
            computes = func.namespace == "aten" and not func.is_view and func.overloadpacket not in plain
            if not (on_device and computes):
                return func(*args, **kwargs)
            device = on_device[0].device
            result = func(*tree_map_only(torch.Tensor, to_host, args), **tree_map_only(torch.Tensor, to_host, kwargs))
            if func._schema.is_mutable:
                return args[0].copy_(result)
            return tree_map_only(torch.Tensor, lambda t: t.to(device), result)

    def wrap(name, of_torch):
        @functools.wraps(of_torch)
        def on_host(*args, **kwargs):
            with OnHost():
                return of_torch(*args, **kwargs)

        return on_host

    return wrap


def pretended_objects(name, of_torch):
    """Makes collectives return this rank's objects for the other ranks; those that receive from another rank return nothing."""

    @functools.wraps(of_torch)
    def pretended(*args, **kwargs):
        say_once("the other ranks are simulated: collectives of objects return this rank's objects")
        if name in ("all_gather_object", "gather_object"):
            return of_torch(*args, **kwargs)

    return pretended


def unbind(c10d):
    """Makes every group create a separate communicator. A group bound to a device would split its communicator instead, which needs
    answers from existing ranks."""
    c10d.ProcessGroup.bound_device_id = property(lambda group: None, lambda group, device: None)


@functools.cache
def say_once(words):
    print(f"vramscope phantom: {words}", file=sys.stderr, flush=True)


def pretend_store(torch):
    """Replaces the rendezvous by a store in this process, which answers for the ranks that do not exist."""
    from datetime import timedelta
    from urllib.parse import parse_qs, urlparse

    class PretendedStore(torch.distributed.Store):
        """Answers unknown keys with as many bytes as an id of NCCL has."""

        def __init__(self):
            super().__init__()
            self.real = torch.distributed.HashStore()

        def get(self, key):
            return self.real.get(key) if self.real.check([key]) else key.encode()[-128:].rjust(128)

        def set(self, key, value):
            self.real.set(key, value)

        def compare_set(self, key, expected, desired):
            return self.real.compare_set(key, expected, desired)

        def add(self, key, amount):
            return self.real.add(key, amount)

        def check(self, keys):
            return self.real.check(keys)

        def delete_key(self, key):
            return self.real.delete_key(key)

        def num_keys(self):
            return self.real.num_keys()

        def wait(self, keys, timeout=timedelta(0)):
            pass

        def set_timeout(self, timeout):
            self.real.set_timeout(timeout)

        def clone(self):
            return self

    # PyTorch keeps no reference to a store implemented in Python.
    store = PretendedStore()

    def meet(url, *args, **kwargs):
        query = parse_qs(urlparse(url).query)
        rank, world_size = (
            int(query.get(name, [os.environ.get(name.upper())])[0]) for name in ("rank", "world_size")
        )
        yield store, rank, world_size
        raise RuntimeError("the ranks have met already")

    handlers = sys.modules["torch.distributed.rendezvous"]._rendezvous_handlers
    for scheme in ("env", "tcp", "file"):
        handlers[scheme] = meet


def pretend_gloo(c10d):
    """Makes collectives on the CPU return this rank's data for every rank, with PyTorch's FakeProcessGroup."""
    gloo = getattr(c10d, "ProcessGroupGloo", None)
    fake = getattr(sys.modules["torch._C._distributed_c10d"], "FakeProcessGroup", None)
    if gloo is None or fake is None:
        return

    class PretendedGloo(gloo):
        def __new__(cls, store, rank, size, *args, **kwargs):
            make = getattr(fake, "_create_internal", fake)
            return make(rank, size)

    c10d.ProcessGroupGloo = PretendedGloo
