"""Hooks into the imports of an unchanged program. Installed next to a sitecustomize.py as vramscope_imports.py."""

import importlib.abc
import importlib.machinery
import importlib.util
import os
import sys


def import_next_sitecustomize(file):
    """Imports the next sitecustomize on the path, which Python would have imported without `file`."""
    here = os.path.dirname(os.path.abspath(file))
    paths = [os.path.abspath(path or ".") for path in sys.path]
    rest = sys.path[paths.index(here) + 1 :] if here in paths else []
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", rest)
    if spec is not None and spec.loader is not None:
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)


class AfterImport(importlib.abc.MetaPathFinder):
    """Finds a module like the other finders, and calls `then` after its import."""

    def __init__(self, name, then):
        self.name = name
        self.then = then

    def find_spec(self, name, path=None, target=None):
        if name != self.name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                self.then(module)

            spec.loader.exec_module = exec_module
        return spec
