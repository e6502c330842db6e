"""The `vramscope` command, also run by `python -m vramscope`."""

import signal
import sys

from vramscope import _native


def main() -> None:
    """Runs the command with this process's arguments and exits with its exit code."""
    # With Python's own handler, Ctrl-C would wait until the native call returns.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.main(["vramscope", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
