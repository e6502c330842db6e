"""Records PyTorch's GPU memory while the program runs.

>>> with vramscope.torch.record("run.pickle", model=model, optimizer=optimizer):
...     train()
"""

from vramscope.torch._line_profile import LineProfileHook
from vramscope.torch._log import LogRecord
from vramscope.torch._pool import MemPool, Pool, mem_pool, segment_allocator, use_pool
from vramscope.torch._record import MAX_ENTRIES, Record, record

__all__ = [
    "MAX_ENTRIES",
    "LineProfileHook",
    "LogRecord",
    "MemPool",
    "Pool",
    "Record",
    "mem_pool",
    "record",
    "segment_allocator",
    "use_pool",
]
