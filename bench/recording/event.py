"""Prints nanoseconds per event at some depths of the Python stack, as JSON. The first argument is the library of event.c."""

import ctypes
import json
import sys

library = ctypes.CDLL(sys.argv[1])
library.events.restype, library.events.argtypes = ctypes.c_double, [ctypes.c_long]


def at_depth(depth, pairs):
    return at_depth(depth - 1, pairs) if depth > 1 else library.events(pairs)


result = {}
for depth in (1, 10, 30, 100):
    at_depth(depth, 10)
    result[depth] = at_depth(depth, 5000)
print(json.dumps(result))
