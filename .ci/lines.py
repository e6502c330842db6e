#!/usr/bin/env python3
"""Counts the lines of the product by crate: .ci/lines.py

Files of git in Rust, TypeScript and Python count, without tests, their data, generated files, benchmarks, examples and acceptance checks.
"""

import collections
import pathlib
import re
import subprocess

LEFT_OUT = re.compile(
    r"(^|/)(tests?|testing|testdata|data|generated|bindings|dist|bench|examples|programs|acceptance)/"
    r"|\.test\.ts$|_test\.|/test_|tests\.rs$|vramscope-testing|\.d\.ts$"
)


def main() -> None:
    """Prints a line for each crate or folder, the largest first, and the sum."""
    names = subprocess.run(["git", "ls-files", "*.rs", "*.ts", "*.py"], check=True, capture_output=True, text=True).stdout
    lines: collections.Counter[str] = collections.Counter()
    for name in names.splitlines():
        if not LEFT_OUT.search(name):
            parts = pathlib.PurePath(name).parts
            lines[parts[1] if parts[0] == "crates" else parts[0]] += pathlib.Path(name).read_bytes().count(b"\n")
    for part, count in lines.most_common():
        print(f"{count:>8,}  {part}")
    print(f"{lines.total():>8,}")


if __name__ == "__main__":
    main()
