"""The command `vramscope`, also `python -m vramscope`."""

import signal
import sys

from vramscope import _native


def main() -> None:
    """Runs the command with the arguments of this process, and ends it with the command's exit code."""
    # Ctrl-C ends the command as it ends any program; Python would wait for it to return.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    sys.exit(_native.main(["vramscope", *sys.argv[1:]]))


if __name__ == "__main__":
    main()
