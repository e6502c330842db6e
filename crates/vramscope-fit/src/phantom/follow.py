"""Follows the small values of a program on a phantom GPU, whose kernels compute nothing.

With VRAMSCOPE_ROUTING, results of at most 1 MiB whose inputs are known (copies from the host, fills, `arange`, and results of such) are
computed on the host with PyTorch's own CPU operators. A read of them returns the computed value. Choices among unknown values (`topk`,
`argmax`) are assumed: `balanced` takes the places in turn, `one` takes the first, `nothing` the last. A mask of unknown values selects half
of its elements, all, or none. The facts name the lines that read unknown or assumed values, and the lines that computed these.
"""

import ctypes
import functools
import os
import sys

# Bytes of a result that is computed on the host, at most; integers and flags decide what a program does next.
KNOWN_BYTES = 1 << 20
INTEGER_BYTES = 8 << 20

# The sizes of a dimension from which a choice is that of a token, whose first numbers have a special meaning.
VOCABULARY = 1 << 10

# Operators whose results depend only on the shape of their input.
SHAPED = ("ones_like", "zeros_like", "full_like", "new_zeros", "new_ones", "new_full")

# Parts of the paths of files that are not the program's.
INSTALLED = ("/site-packages/", "/dist-packages/", "/lib/python", "/vramscope-phantom-")


class Phantom:
    """Functions of the phantom library."""

    # Reads of which size return a value: of up to 8 bytes, or of 1 byte.
    VALUE, FLAG = 1, 2

    def __init__(self):
        library = ctypes.PyDLL(None)
        self.answer = library.vramscope_phantom_answer
        self.answer.argtypes = (ctypes.c_int, ctypes.c_uint64)
        self.answer.restype = None
        self.reads = library.vramscope_phantom_reads
        self.launches = library.vramscope_phantom_launches
        self.reads.restype = self.launches.restype = ctypes.c_uint64
        self.know = library.vramscope_phantom_know
        self.know.argtypes = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
        self.know.restype = None
        self.copied = library.vramscope_phantom_copied
        self.copied.argtypes = (ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint64)
        self.copied.restype = ctypes.c_int


class Values:
    """The values of one storage on a GPU: the same bytes on the host."""

    __slots__ = ("bytes", "origin", "ref")

    def __init__(self, ref, content, origin):
        # Keeps the identity of the storage, and none of its memory.
        self.ref = ref
        self.bytes = content
        # Where values were assumed; None for known ones.
        self.origin = origin


class Plan:
    """What an operator does with its arguments."""

    __slots__ = ("has_generator", "is_overwriting", "is_random", "is_shaped", "is_torchs", "is_view", "special", "writes")

    def __init__(self, torch, func, special):
        arguments = func._schema.arguments
        name = func._schema.name.split("::")[1]
        self.is_torchs = func.namespace in ("aten", "prims")
        self.is_view = getattr(func, "is_view", False) or name in ("record_stream", "lift_fresh", "set_")
        self.writes = [i for i, argument in enumerate(arguments) if argument.alias_info and argument.alias_info.is_write]
        self.is_random = torch.Tag.nondeterministic_seeded in func.tags
        self.has_generator = any(argument.name == "generator" for argument in arguments)
        fills = name in ("copy_", "fill_", "zero_") or (self.is_random and name.endswith("_"))
        self.is_overwriting = fills or any(arguments[i].kwarg_only for i in self.writes)
        self.is_shaped = name in SHAPED
        self.special = special.get(name)


def start(torch):
    """Follows values from now on; returns the follower, and None without VRAMSCOPE_ROUTING."""
    routing = os.environ.get("VRAMSCOPE_ROUTING")
    if not routing:
        return None
    follower = make(torch)(routing)
    follower.__enter__()
    return follower


def make(torch):
    """Returns the class of the follower."""
    from torch.multiprocessing.reductions import StorageWeakRef
    from torch.utils._python_dispatch import TorchDispatchMode

    Tensor = torch.Tensor

    def tensors_in(values):
        for value in values:
            if isinstance(value, Tensor):
                yield value
            elif isinstance(value, (list, tuple)):
                yield from tensors_in(value)

    def mapped(value, change):
        if isinstance(value, Tensor):
            return change(value)
        if isinstance(value, (list, tuple)):
            return [mapped(one, change) for one in value]
        if isinstance(value, torch.device):
            return torch.device("cpu")
        return value

    @functools.cache
    def is_plain(kind):
        return kind is Tensor or kind.__torch_dispatch__ is torch._C._disabled_torch_dispatch_impl

    class Follower(TorchDispatchMode):
        supports_higher_order_operators = True

        @classmethod
        def is_infra_mode(cls):
            # torch.compile compiles as without it.
            return True

        @classmethod
        def _should_skip_dynamo(cls):
            return False

        def __init__(self, routing):
            super().__init__()
            self.routing = routing
            self.phantom = Phantom()
            self.values = {}
            # Where unknown values were computed, by their storage.
            self.origins = {}
            self.plans = {}
            self.launches = 0
            # Counts by the reading line, the computing line and the operator that computed.
            self.unknown_reads = {}
            self.assumed_reads = {}
            self.selections = 0
            self.generator = torch.Generator()
            self.generator.manual_seed(("balanced", "nothing", "one").index(routing))
            special = {
                "_local_scalar_dense": self.scalar,
                "linalg_eig": self.checked,
                "equal": self.equal,
                "nonzero": self.selected,
                "masked_select": self.masked,
                "index": self.masked,
                "index_put": self.masked,
                "index_put_": self.masked,
                "_index_put_impl_": self.masked,
                "_unsafe_index": self.masked,
                "_unique2": self.unique,
                "unique_dim": self.unique,
                "unique_consecutive": self.unique,
                "repeat_interleave": self.repeated,
            }
            special |= dict.fromkeys(("topk", "argmax", "argmin", "sort", "argsort", "max", "min", "multinomial"), self.chosen)
            self.special = special

        def facts(self):
            """Returns the reads of unknown and of assumed values, and the number of selections by them."""

            def listed(reads):
                return [
                    {"line": line, "computed_at": at, "operator": operator, "reads": count}
                    for (line, at, operator), count in reads.items()
                ]

            return {
                "unknown": listed(self.unknown_reads),
                "assumed": listed(self.assumed_reads),
                "selections": self.selections,
            }

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if not all(map(is_plain, types)):
                # A subclass of tensors does its part first.
                return NotImplemented
            kwargs = kwargs or {}
            plan = self.plans.get(func)
            if plan is None:
                if not isinstance(func, torch._ops.OpOverload):
                    return func(*args, **kwargs)
                plan = self.plans[func] = Plan(torch, func, self.special)
            if plan.is_view:
                return func(*args, **kwargs)
            on_gpu = [tensor for tensor in tensors_in((*args, *kwargs.values())) if tensor.is_cuda]
            if not on_gpu and getattr(kwargs.get("device"), "type", None) != "cuda":
                return func(*args, **kwargs)
            if self.phantom.launches() != self.launches:
                # A kernel that is no operator of PyTorch may have written anywhere.
                for key, values in self.values.items():
                    values.bytes, values.origin = None, (None, None)
                    self.origins[key] = values
                self.values.clear()
            try:
                if plan.special is not None:
                    return plan.special(func, plan, args, kwargs)
                if not plan.is_torchs:
                    return self.foreign(func, plan, args, kwargs, on_gpu)
                return self.plain(func, plan, args, kwargs)
            finally:
                self.launches = self.phantom.launches()

        # ---- values of storages ----

        def of(self, tensor):
            """Returns the values of a tensor's storage; None if they are unknown."""
            storage = tensor.untyped_storage()
            values = self.values.get(storage._cdata)
            if values is not None and not values.ref.expired():
                return values
            return self.copied(storage)

        def copied(self, storage):
            """Returns the values of a storage that no operator has written: the program copied them, for example with `torch.tensor`."""
            origin = self.origins.get(storage._cdata)
            if storage.nbytes() > KNOWN_BYTES or origin is not None and not origin.ref.expired():
                return None
            content = torch.UntypedStorage(storage.nbytes())
            values = Values(StorageWeakRef(storage), content, (None, None))
            if not self.phantom.copied(storage.data_ptr(), content.data_ptr(), storage.nbytes()):
                self.keep(self.origins, storage._cdata, values)
                return None
            values.origin = None
            self.keep(self.values, storage._cdata, values)
            return values

        def on_host(self, tensor):
            """Returns the tensor with its values on the host; they must be known."""
            if not tensor.is_cuda:
                return tensor
            storage = self.of(tensor).bytes
            host = torch.empty(0, dtype=tensor.dtype)
            host.set_(storage, tensor.storage_offset(), tensor.size(), tensor.stride())
            return host

        def put(self, tensor, result, origin):
            """Makes `result`, on the host, the values of a whole storage."""
            storage = tensor.untyped_storage()
            content = torch.UntypedStorage(storage.nbytes())
            self.keep(self.values, storage._cdata, Values(StorageWeakRef(storage), content, origin))
            self.on_host(tensor).copy_(result)

        @staticmethod
        def keep(entries, key, entry):
            """Adds an entry, and now and then removes those of freed storages."""
            entries.pop(key, None)
            entries[key] = entry
            if len(entries) % 1024 == 0:
                for old in [key for key, entry in entries.items() if entry.ref.expired()]:
                    del entries[old]

        def is_small(self, tensor):
            is_number = tensor.is_floating_point() or tensor.is_complex()
            return tensor.untyped_storage().nbytes() <= (KNOWN_BYTES if is_number else INTEGER_BYTES)

        def lose(self, tensors, func):
            """Makes the values of tensors unknown, computed here."""
            here = None
            for tensor in tensors:
                if not tensor.is_cuda:
                    continue
                storage = tensor.untyped_storage()
                self.values.pop(storage._cdata, None)
                if self.is_small(tensor):
                    here = here or (program_line(), func._schema.name)
                    self.keep(self.origins, storage._cdata, Values(StorageWeakRef(storage), None, here))

        def origin_of(self, tensor):
            """Returns the line and the operator that computed unknown values."""
            entry = self.origins.get(tensor.untyped_storage()._cdata)
            return entry.origin if entry is not None and not entry.ref.expired() else (None, None)

        def note(self, reads, origin):
            key = (program_line(), *origin)
            reads[key] = reads.get(key, 0) + 1

        # ---- operators ----

        def plain(self, func, plan, args, kwargs):
            """An operator whose results have shapes that do not depend on values."""
            inputs = list(tensors_in((*args, *kwargs.values())))
            written = self.written(plan, args, kwargs)
            read = [t for t in inputs if not (plan.is_overwriting and any(t is w for w in written))]
            if plan.is_shaped:
                read = []
            known = [self.of(t) for t in read if t.is_cuda]
            is_known = all(values is not None for values in known)
            origin = next((values.origin for values in known if values is not None and values.origin), None)
            if written and not written[0].is_cuda:
                return self.to_host(func, args, kwargs, read, is_known, origin)
            before = self.phantom.reads()
            if is_known and "device" in kwargs and read and getattr(kwargs["device"], "type", "cuda") == "cpu":
                return self.to_host(func, args, kwargs, read, is_known, origin)
            result = func(*args, **kwargs)
            results = [t for t in tensors_in(result if isinstance(result, (list, tuple)) else [result])]
            if any(not t.is_cuda for t in results) and read:
                if self.phantom.reads() > before:
                    self.note(self.unknown_reads, self.origin_of(read[0]))
                return result
            targets = written or results
            if plan.is_random:
                is_known = is_known and plan.has_generator
                origin = origin or (program_line(), func._schema.name)
            if is_known and targets and all(map(self.is_small, targets)):
                try:
                    self.compute(func, plan, args, kwargs, written, results, origin)
                    return result
                except Exception:
                    # The operator has no form for the host.
                    pass
            self.lose(targets, func)
            return result

        def written(self, plan, args, kwargs):
            if not plan.writes:
                return []
            arguments = [*args, *(kwargs.values() if len(plan.writes) else ())]
            kept = [args[i] for i in plan.writes if i < len(args)]
            if len(kept) < len(plan.writes):
                kept = [value for value in arguments if isinstance(value, (Tensor, list, tuple))]
            return list(tensors_in(kept))

        def compute(self, func, plan, args, kwargs, written, results, origin):
            """Computes results on the host, from known values."""
            targets = {}

            def change(tensor):
                is_result = plan.is_overwriting and any(tensor is one for one in written)
                if is_result or plan.is_shaped:
                    empty = torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype)
                    return targets.setdefault(id(tensor), empty)
                return self.on_host(tensor)

            options = {name: mapped(value, change) for name, value in kwargs.items()}
            if plan.is_random:
                options["generator"] = self.generator
            computed = func(*mapped(args, change), **options)
            if written:
                for tensor in written:
                    if id(tensor) in targets:
                        self.overwrite(tensor, targets[id(tensor)], origin)
                    elif origin:
                        self.of(tensor).origin = self.of(tensor).origin or origin
                return
            computed = list(tensors_in(computed if isinstance(computed, (list, tuple)) else [computed]))
            for tensor, value in zip(results, computed, strict=True):
                if self.of(tensor) is None:
                    self.put(tensor, value, origin)

        def overwrite(self, tensor, value, origin):
            """Stores values that were written to all of a tensor, which may be a part of its storage."""
            if (values := self.of(tensor)) is not None:
                self.on_host(tensor).copy_(value)
                values.origin = values.origin or origin
            elif tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes():
                self.put(tensor, value, origin)

        def to_host(self, func, args, kwargs, read, is_known, origin):
            """A copy to the host."""
            if not is_known:
                before = self.phantom.reads()
                result = func(*args, **kwargs)
                if self.phantom.reads() > before:
                    self.note(self.unknown_reads, self.origin_of(next(t for t in read if t.is_cuda)))
                return result
            if origin:
                self.note(self.assumed_reads, origin)
            result = self.answered(0, func, args, kwargs)
            return result.copy_(self.on_host(next(t for t in read if t.is_cuda)))

        def answered(self, value, func, args, kwargs, kind=Phantom.VALUE):
            """Calls an operator whose kernel reads `value` from the GPU."""
            self.phantom.answer(kind, value)
            try:
                return func(*args, **kwargs)
            finally:
                self.phantom.answer(0, 0)

        def foreign(self, func, plan, args, kwargs, on_gpu):
            """An operator that is not PyTorch's own, or communicates: it reads the known values, and may write anywhere if it does not
            declare what it writes."""
            for tensor in on_gpu:
                if self.of(tensor) is not None and tensor.is_contiguous():
                    host = self.on_host(tensor)
                    self.phantom.know(tensor.data_ptr(), host.data_ptr(), host.numel() * host.element_size())
            result = func(*args, **kwargs)
            communicates = "c10d" in func.namespace
            self.lose(on_gpu if communicates else self.written(plan, args, kwargs), func)
            return result

        # ---- operators that read values ----

        def checked(self, func, plan, args, kwargs):
            """An operator that checks whether its input is finite."""
            result = self.answered(1, func, args, kwargs, self.phantom.FLAG)
            self.lose(tensors_in(result), func)
            return result

        def scalar(self, func, plan, args, kwargs):
            values = self.of(args[0])
            if values is None:
                before = self.phantom.reads()
                result = func(*args, **kwargs)
                if self.phantom.reads() > before:
                    self.note(self.unknown_reads, self.origin_of(args[0]))
                return result
            if values.origin:
                self.note(self.assumed_reads, values.origin)
                self.selections += 1
            self.answered(0, func, args, kwargs)
            return self.on_host(args[0]).item()

        def equal(self, func, plan, args, kwargs):
            known = [self.of(tensor) if tensor.is_cuda else None for tensor in args[:2]]
            if None not in known:
                self.read_assumed(known)
                return self.answered(int(torch.equal(*map(self.on_host, args[:2]))), func, args, kwargs)
            self.select(args[known.index(None)])
            return self.answered(int(self.routing != "nothing"), func, args, kwargs)

        def read_assumed(self, known):
            if origin := next((values.origin for values in known if values.origin), None):
                self.note(self.assumed_reads, origin)
                self.selections += 1

        def select(self, tensor):
            """Notes a selection by unknown values."""
            self.note(self.unknown_reads, self.origin_of(tensor))
            self.selections += 1

        def count(self, mask):
            """The number of elements that a mask selects."""
            if not mask.is_cuda:
                return int(mask.count_nonzero())
            if (values := self.of(mask)) is not None:
                self.read_assumed([values])
                return int(self.on_host(mask).count_nonzero())
            self.select(mask)
            return {"balanced": (mask.numel() + 1) // 2, "one": mask.numel(), "nothing": 0}[self.routing]

        def selected(self, func, plan, args, kwargs):
            values = self.of(args[0])
            result = self.answered(self.count(args[0]), func, args, kwargs)
            if values is not None and self.is_small(result):
                self.put(result, self.on_host(args[0]).nonzero(), values.origin)
            return result

        def masked(self, func, plan, args, kwargs):
            masks = [t for t in tensors_in(args[1:2]) if t.is_cuda and t.dtype in (torch.bool, torch.uint8)]
            if not masks:
                return self.plain(func, plan, args, kwargs)
            self.phantom.answer(self.phantom.VALUE, self.count(masks[0]))
            try:
                return self.plain(func, plan, args, kwargs)
            finally:
                self.phantom.answer(0, 0)

        def unique(self, func, plan, args, kwargs):
            source = args[0]
            values = self.of(source)
            if values is None:
                self.select(source)
                count = {"balanced": (source.numel() + 1) // 2, "one": source.numel(), "nothing": min(1, source.numel())}[self.routing]
                result = self.answered(count, func, args, kwargs)
                self.lose(tensors_in(result), func)
                return result
            self.read_assumed([values])
            computed = func(self.on_host(source), *args[1:], **kwargs)
            result = self.answered(computed[0].size(0), func, args, kwargs)
            for tensor, value in zip(result, computed, strict=True):
                if tensor.shape == value.shape:
                    self.put(tensor, value, values.origin)
            return result

        def repeated(self, func, plan, args, kwargs):
            repeats = args[0]
            if func._schema.overload_name != "Tensor" or kwargs.get("output_size") is not None:
                return self.plain(func, plan, args, kwargs)
            if (values := self.of(repeats)) is None:
                self.select(repeats)
                count = {"balanced": 1, "one": 2, "nothing": 0}[self.routing] * repeats.numel()
                return self.answered(count, func, args, kwargs)
            self.read_assumed([values])
            result = self.answered(int(self.on_host(repeats).sum()), func, args, kwargs)
            self.put(result, torch.repeat_interleave(self.on_host(repeats)), values.origin)
            return result

        def chosen(self, func, plan, args, kwargs):
            """A choice along a dimension: of known values as they are, else the routing's."""
            result = self.plain(func, plan, args, kwargs)
            outputs = list(tensors_in(result if isinstance(result, (list, tuple)) else [result]))
            indices = outputs[-1]
            if indices.dtype != torch.int64 or args[0].dtype == torch.int64 and len(outputs) == 1 and not plan.is_random:
                if func._schema.name.split("::")[1] not in ("argmax", "argmin", "argsort"):
                    return result
            if self.of(indices) is None and self.is_small(indices) and indices.is_cuda and args[0].dim():
                self.put(indices, self.choice(func, args, kwargs, indices), (program_line(), func._schema.name))
            return result

        def choice(self, func, args, kwargs, indices):
            name = func._schema.name.split("::")[1]
            if name in ("topk", "sort", "multinomial", "argsort"):
                named = kwargs.get("dim", args[2] if name in ("topk",) and len(args) > 2 else None)
                dim = -1 if name in ("topk", "multinomial") else next((a for a in args[1:] if type(a) is int), -1)
                dim = dim if named is None else named
                places, width = args[0].size(dim), indices.size(dim)
            else:
                dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
                places, width = (args[0].numel() if dim is None else args[0].size(dim)), 1
                dim = -1
            rows = indices.numel() // max(width, 1)
            column = torch.arange(width)
            if name in ("sort", "argsort"):
                chosen = column.expand(rows, width)
            elif places >= VOCABULARY:
                chosen = (places // 3 + torch.arange(rows).unsqueeze(1) * width + column) % places
            elif self.routing == "balanced":
                chosen = (torch.arange(rows).unsqueeze(1) * width + column) % places
            elif self.routing == "one":
                chosen = column.expand(rows, width) % places
            else:
                chosen = (places - 1 - column).expand(rows, width) % places
            if width == 1 or indices.dim() == 0:
                return chosen.reshape(indices.shape)
            moved = indices.movedim(dim, -1).shape
            return chosen.reshape(moved).movedim(-1, dim)

    return Follower


def program_line():
    """Returns the innermost line in a file that was not installed, or else the innermost line; None on a thread without Python's frames."""
    frame = innermost = sys._getframe(1)
    while frame is not None:
        name = frame.f_code.co_filename
        if not is_installed(name):
            return f"{relative(name)}:{frame.f_lineno}"
        if innermost.f_code.co_filename == __file__:
            innermost = frame
        frame = frame.f_back
    return f"{relative(innermost.f_code.co_filename)}:{innermost.f_lineno}"


@functools.cache
def is_installed(name):
    return name.startswith("<") or any(part in name for part in INSTALLED)


@functools.cache
def relative(name):
    folder = os.getcwd() + os.sep
    return name.removeprefix(folder)
