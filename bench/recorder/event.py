"""Prints nanoseconds per event at some depths of the stack, as JSON. Arguments: the library of event.c, and `python` or `native`, the
frames that make up the depth."""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.events.restype, library.events.argtypes = ctypes.c_double, [ctypes.c_long]
library.events_below.restype, library.events_below.argtypes = ctypes.c_double, [ctypes.c_long, ctypes.c_long]


def at_depth(depth, pairs):
    return at_depth(depth - 1, pairs) if depth > 1 else library.events(pairs)


events = library.events_below if sys.argv[2] == "native" else at_depth
result = {}
for depth in (1, 10, 30, 100):
    events(depth, 10)
    result[depth] = events(depth, 5000)
print(json.dumps(result))
