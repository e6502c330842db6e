"""Finds a setting with which a failed run fits: python examples/python/oom.py examples/oom.pickle"""

import sys

import vramscope

GIB = 1 << 30


def main(path: str) -> None:
    recording = vramscope.read(path)
    for oom in recording.ooms():
        print(f"{oom['requested_bytes'] / GIB:.2f} GiB requested, {oom['missing_bytes'] / GIB:.2f} GiB missing")
        for holder in oom["holders"][:3]:
            print(f"  {holder['bytes'] / GIB:.2f} GiB held by {holder['key']}")
    best = next((tried for tried in recording.replay()["what_if"] if tried["fits"]), None)
    if best is not None:
        print(f"it fits with PYTORCH_CUDA_ALLOC_CONF={best['conf']}")


if __name__ == "__main__":
    main(sys.argv[1])
