"""Runs Chainer with newer releases of CuPy and NumPy, for tests."""

import sys
import types

import pytest


def chainer():
    """Returns Chainer, patched for this NumPy and for a library missing from this CuPy; or skips the test."""
    cupy = pytest.importorskip("cupy", reason="needs cupy: ./test --cupy")
    if "chainer" not in sys.modules:
        import numpy

        kinds = {"int": "i", "uint": "u", "float": "f", "complex": "c"}
        sctypes = {
            kind: [numpy.dtype(f"{c}{n}").type for n in (1, 2, 4, 8, 16) if _exists(f"{c}{n}")]
            for kind, c in kinds.items()
        }
        names = {"sctypes": sctypes | {"others": [bool, object, bytes, str]}, "bool": bool, "int": int, "float": float}
        for name, value in names.items():
            if not hasattr(numpy, name):
                setattr(numpy, name, value)
        cupy.cuda.cublas = types.ModuleType("cublas")
    return pytest.importorskip("chainer", reason="needs chainer: ./test --cupy")


def _exists(name):
    import numpy

    try:
        numpy.dtype(name)
    except TypeError:
        return False
    return True
