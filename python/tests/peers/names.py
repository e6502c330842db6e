"""The modules of gpumemprof and stormlog, built from vramscope's names: a pytest plugin for the peers' tests.

`PEERS_PACKAGE` names the package. `PEERS_OUTCOMES` names the file that receives a JSON line per test, and per file
that cannot be imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import json
import os
import sys
import types

PACKAGE = os.environ.get("PEERS_PACKAGE", "")

# The peers' modules, and the vramscope modules that provide their names. Other modules have no counterpart.
MODULES = {
    "": ["vramscope", "vramscope.profiler"],
    "profiler": ["vramscope.profiler", "vramscope.profiler._profiler"],
    "context_profiler": ["vramscope.profiler", "vramscope.profiler._global"],
    "tracker": ["vramscope.profiler", "vramscope.profiler._tracker"],
    "oom_flight_recorder": ["vramscope.profiler", "vramscope.profiler._flight_recorder"],
    "device_collectors": ["vramscope.profiler", "vramscope.profiler._sources"],
    "phases": ["vramscope.profiler", "vramscope.profiler._phases"],
    "utils": ["vramscope.profiler"],
    "analyzer": ["adapters"],
    "telemetry": ["adapters"],
}


class NoCounterpart(Exception):  # noqa: N818
    """A test uses a name that does not exist here."""


class Absent(type):
    """A name without a counterpart. It can be imported and subclassed; a test that uses it fails."""

    #: During collection, files are imported and may use such names in test parameters.
    is_collecting = True

    def __getattr__(cls, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return absent(f"{cls.__name__}.{name}")

    def fail(cls, *_, **__):
        raise NoCounterpart(f"no counterpart: {cls.__name__}")

    def __call__(cls, *_, **__):
        return absent(f"{cls.__name__}()") if Absent.is_collecting else cls.fail()

    def __iter__(cls):
        return iter(()) if Absent.is_collecting else cls.fail()

    def __len__(cls):
        return 0 if Absent.is_collecting else cls.fail()

    __eq__ = __lt__ = __gt__ = __add__ = __getitem__ = __contains__ = __bool__ = fail
    __instancecheck__ = __enter__ = __fspath__ = __or__ = __index__ = fail
    __hash__ = type.__hash__


def absent(name):
    return Absent(name, (), {})


def ours(modules, name):
    """Looks up a name in vramscope's modules; `None` if it is missing."""
    found = (getattr(importlib.import_module(module), name, None) for module in modules)
    return next((value for value in found if value is not None), None)


class Names(types.ModuleType):
    """A peer module whose names are vramscope's, or absent."""

    def __init__(self, name, ours):
        super().__init__(name)
        self.__path__ = []
        self.__ours = ours

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        found = ours(self.__ours, name)
        return absent(f"{self.__name__}.{name}") if found is None else found


class Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds every module of the peer."""

    def find_spec(self, fullname, *_):
        if fullname.partition(".")[0] == PACKAGE:
            return importlib.machinery.ModuleSpec(fullname, self, is_package=True)
        return None

    def create_module(self, spec):
        return Names(spec.name, MODULES.get(spec.name.partition(".")[2], []))

    def exec_module(self, module):
        pass


if PACKAGE:
    sys.meta_path.insert(0, Finder())


def pytest_collection_finish():
    Absent.is_collecting = False


def write(**outcome):
    with open(os.environ["PEERS_OUTCOMES"], "a", encoding="utf-8") as file:
        file.write(json.dumps(outcome) + "\n")


def said(report):
    """Returns the error of a failed report as one line."""
    if report.longrepr is None:
        return ""
    crash = getattr(report.longrepr, "reprcrash", None)
    text = crash.message if crash is not None else str(report.longrepr)
    if report.outcome == "skipped" and isinstance(report.longrepr, tuple):
        text = report.longrepr[2]
    lines = [line for line in text.splitlines() if line.strip()]
    return (lines[0] if crash is not None else lines[-1]) if lines else ""


def pytest_runtest_logreport(report):
    if report.when == "call" or report.outcome != "passed":
        write(test=report.nodeid, outcome=report.outcome, said=said(report))


def pytest_collectreport(report):
    if report.outcome != "passed":
        write(test=report.nodeid, outcome=report.outcome, said=said(report))
