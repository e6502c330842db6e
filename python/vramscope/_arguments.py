"""Checks of arguments: the error for a wrong one names the argument and what it takes."""

import os
import sys

# `typing` and `threading` take longer to import than this.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def whole(name: "str", value: "Any") -> "int":
    """Returns `value`, a whole number.

    Raises:
        TypeError: It is none.
    """
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    number: int = value.__index__()
    return number


def at_least(name: "str", value: "Any", lowest: "int") -> "int":
    """Returns `value`, a whole number from `lowest` on that a list can have entries.

    Raises:
        TypeError: It is no whole number.
        ValueError: It is less than `lowest`, or more than `sys.maxsize`.
    """
    number = whole(name, value)
    if number < lowest:
        raise ValueError(f"{name} must be >= {lowest}")
    if number > sys.maxsize:
        raise ValueError(f"{name} must be <= {sys.maxsize}")
    return number


def number(name: "str", value: "Any") -> "float":
    """Returns `value` as a float; a number that is too large for one is infinite.

    Raises:
        TypeError: It is no number.
    """
    from numbers import Real

    is_number = isinstance(value, Real)
    if not is_number:
        raise TypeError(f"{name} is a number, not {type(value).__name__}")
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


def seconds(name: "str", value: "Any") -> "float":
    """Returns `value`, a time in seconds above 0 that a thread can wait.

    Raises:
        TypeError: It is no number.
        ValueError: It is not above 0, or more than `threading.TIMEOUT_MAX`.
    """
    from threading import TIMEOUT_MAX

    time = number(name, value)
    if not time > 0:
        raise ValueError(f"{name} must be > 0")
    if time > TIMEOUT_MAX:
        raise ValueError(f"{name} must be <= {TIMEOUT_MAX:.0f}")
    return time


def path(name: "str", value: "Any") -> "str":
    """Returns a path as text.

    Raises:
        TypeError: `value` is neither a str nor an os.PathLike of one.
        ValueError: It has a null character, which no path has.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} is a str or an os.PathLike of one, not {type(value).__name__}")
    if "\0" in text:
        raise ValueError(f"{name} has a null character")
    return text


def function(name: "str", value: "Any") -> "Any":
    """Returns `value`, which can be called.

    Raises:
        TypeError: It cannot.
    """
    if not callable(value):
        raise TypeError(f"{name} is a function, not {type(value).__name__}")
    return value
