"""Compares CuPy's own pool with vramscope's, step by step: addresses, bytes, counters and errors."""

import gc
import random
import warnings

import pytest
from cupy_pool import cupy, out_of_device_memory
from vramscope.cupy import OutOfMemoryError, VirtualDevice, VirtualPool

MIB = 1 << 20


class CupyPool:
    """CuPy's pool on one virtual device, with vramscope's stream names."""

    def __init__(self, capacity):
        memory = cupy().cuda.memory
        self.device = VirtualDevice(capacity)
        allocator = memory.PythonFunctionAllocator(self.device_malloc, self.device_free)
        self.pool = memory.SingleDeviceMemoryPool(allocator.malloc)
        self.error = memory.OutOfMemoryError
        self.held = {}

    def device_malloc(self, size, _device_id):
        try:
            return self.device.malloc(size)
        except OutOfMemoryError:
            raise out_of_device_memory() from None

    def device_free(self, address, _device_id):
        self.device.free(address)

    def stream(self, number):
        with warnings.catch_warnings():
            # The newer stream constructors query the driver.
            warnings.simplefilter("ignore", DeprecationWarning)
            return cupy().cuda.ExternalStream(number)

    def malloc(self, size, stream):
        with self.stream(stream):
            try:
                pointer = self.pool.malloc(size)
            except self.error as error:
                raise OutOfMemoryError(str(error)) from None
        if pointer.ptr:
            self.held[pointer.ptr] = pointer
        return pointer.ptr

    def free(self, address):
        del self.held[address]

    def free_all_blocks(self, stream=None):
        self.pool.free_all_blocks(None if stream is None else self.stream(stream))

    def chosen_by_object(self, size, stream):
        """Whether several free blocks fit a request equally well.

        CuPy then takes the block whose Python object has the lowest address, which no rule can predict.
        """
        size = -(-size // 512) * 512
        best = [block for block, _ in self.pool._debug_arena_get_index(stream) if block >= size][:2]
        return len(best) == 2 and best[0] == best[1]


class OurPool:
    """vramscope's pool with CuPy's rules."""

    def __init__(self, capacity):
        self.device = VirtualDevice(capacity)
        self.pool = VirtualPool(self.device)
        self.malloc = self.pool.malloc
        self.free = self.pool.free
        self.free_all_blocks = self.pool.free_all_blocks


def counters(pool):
    its = pool.pool
    return its.used_bytes(), its.free_bytes(), its.total_bytes(), its.n_free_blocks(), pool.device.free_bytes()


def sizes(kind, pick):
    """Generates request sizes: typical ones, or so varied that no two free blocks have the same size."""
    if kind == "wide":
        return int(2 ** pick.uniform(30, 40))
    return pick.choice([pick.randrange(0, 5000), pick.randrange(0, MIB), pick.randrange(0, 12 * MIB), 512, 4096, MIB])


@pytest.mark.parametrize("kind", ["usual", "limited", "wide"])
def test_a_hundred_thousand_steps(kind):
    cupy()
    pick = random.Random(kind)
    capacity = {"usual": 260 * MIB, "limited": 400 * MIB, "wide": 1 << 50}[kind]
    theirs, ours = CupyPool(capacity), OurPool(capacity)
    held = []
    seen = {"malloc": 0, "free": 0, "oom": 0, "limit": 0, "release": 0, "asked anew": 0}
    gc.collect()
    # CuPy collects garbage before it gives up; exempt all existing objects.
    gc.freeze()
    try:
        for _ in range(100_000):
            chance = pick.random()
            if chance < 0.005:
                stream = pick.choice([None, 0, 1, 2])
                theirs.free_all_blocks(stream)
                ours.free_all_blocks(stream)
                seen["release"] += 1
            elif chance < 0.007 and kind == "limited":
                limit = pick.choice([0, 50, 200, 500]) * MIB
                theirs.pool.set_limit(size=limit)
                ours.pool.set_limit(size=limit)
                assert theirs.pool.get_limit() == ours.pool.get_limit() == limit
            elif held and chance < 0.3 + len(held) / 1000:
                address = held.pop(pick.randrange(len(held)))
                theirs.free(address)
                ours.free(address)
                seen["free"] += 1
            else:
                size, stream = sizes(kind, pick), pick.choice([0, 0, 0, 1, 3])
                while theirs.chosen_by_object(size, stream):
                    seen["asked anew"] += 1
                    size = sizes(kind, pick)
                answers = []
                for pool in (theirs, ours):
                    try:
                        answers.append(pool.malloc(size, stream))
                    except OutOfMemoryError as error:
                        answers.append(str(error))
                assert answers[0] == answers[1], (size, stream)
                if isinstance(answers[0], str):
                    seen["limit" if "limit set" in answers[0] else "oom"] += 1
                else:
                    seen["malloc"] += 1
                    if answers[0]:
                        held.append(answers[0])
            assert counters(theirs) == counters(ours)
    finally:
        gc.unfreeze()
    print(kind, seen)
    assert seen["malloc"] > 40_000
    assert seen["free"] > 40_000
    if kind == "limited":
        assert seen["limit"] > 100
        assert seen["asked anew"] > 0
    if kind == "usual":
        assert seen["oom"] > 100


def test_limits_are_refused_in_cupys_words():
    pool = VirtualPool(VirtualDevice(1 << 30))
    with pytest.raises(ValueError, match="size and fraction cannot be specified at one time"):
        pool.set_limit(size=1, fraction=0.5)
    with pytest.raises(ValueError, match="memory limit size out of range: -1"):
        pool.set_limit(size=-1)
    with pytest.raises(ValueError, match=r"memory limit fraction out of range: 1.5"):
        pool.set_limit(fraction=1.5)
    pool.set_limit(fraction=0.5)
    assert pool.get_limit() == 1 << 29
    pool.set_limit()
    assert pool.get_limit() == 0
    with pytest.raises(KeyError):
        pool.free(512)
