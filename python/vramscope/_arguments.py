"""Argument checks: each error names the argument and the accepted values."""

import os
import sys

# Importing `typing` and `threading` takes longer than this module.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def whole(name: "str", value: "Any") -> "int":
    """Returns `value` as an integer.

    Raises:
        TypeError: `value` is not an integer.
    """
    if not hasattr(type(value), "__index__"):
        raise TypeError(f"{name} is a whole number, not {type(value).__name__}")
    number: int = value.__index__()
    return number


def at_least(name: "str", value: "Any", lowest: "int") -> "int":
    """Returns `value` as an integer from `lowest` to `sys.maxsize`, the largest length of a list.

    Raises:
        TypeError: `value` is not an integer.
        ValueError: `value` is outside the range.
    """
    number = whole(name, value)
    if number < lowest:
        raise ValueError(f"{name} must be >= {lowest}")
    if number > sys.maxsize:
        raise ValueError(f"{name} must be <= {sys.maxsize}")
    return number


def number(name: "str", value: "Any") -> "float":
    """Returns `value` as a float; a number too large for a float becomes infinite.

    Raises:
        TypeError: `value` is not a real number.
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
    """Returns `value`, a timeout in seconds above 0.

    Raises:
        TypeError: `value` is not a real number.
        ValueError: `value` is not above 0, or is above `threading.TIMEOUT_MAX`.
    """
    from threading import TIMEOUT_MAX

    time = number(name, value)
    if not time > 0:
        raise ValueError(f"{name} must be > 0")
    if time > TIMEOUT_MAX:
        raise ValueError(f"{name} must be <= {TIMEOUT_MAX:.0f}")
    return time


def path(name: "str", value: "Any") -> "str":
    """Returns a path as a str.

    Raises:
        TypeError: `value` is neither a str nor an os.PathLike that gives a str.
        ValueError: The path contains a null character.
    """
    text = os.fspath(value) if isinstance(value, (str, os.PathLike)) else value
    if not isinstance(text, str):
        raise TypeError(f"{name} is a str or an os.PathLike, not {type(value).__name__}")
    if "\0" in text:
        raise ValueError(f"{name} contains a null character")
    return text


def function(name: "str", value: "Any") -> "Any":
    """Returns `value` if it is callable.

    Raises:
        TypeError: `value` is not callable.
    """
    if not callable(value):
        raise TypeError(f"{name} is a function, not {type(value).__name__}")
    return value
