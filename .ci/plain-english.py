#!/usr/bin/env python3
"""Finds phrases that have to be read twice, in documentation, comments and texts, and names the plain form.

    .ci/plain-english.py [FILE ...]

Without files, all files of the repository that have prose. Prints each sentence to change, and ends with 1 if there is one. A phrase is
here because the project once used it; add to the table what reviewers find again.
"""

import pathlib
import re
import subprocess
import sys

# A regular expression, and what to write.
PHRASES = {
    r"\bwhoever\b": "name the person or the program",
    r"\bnobody (knows|asks|needs|waits)\b": "say what is unknown or unused",
    r"\b(is|are|was|were) told (of|by|apart)\b": "inferred from, recorded by, distinguished",
    r"\bwho (asks|reads|calls|holds|has)\b": "the caller, the reader, the holder",
    r"\bwhat (is|was) (live|there|held|kept|left|asked)\b": "live allocations, held bytes, retained bytes, the request",
    r"\bhas no say\b": "never changes",
    r"\bfor want of\b": "because ... is missing",
    r"\b(is|are) dear to\b": "is expensive to",
    r"\bgiv(es?|en|ing) back\b": "frees, releases, returns",
    r"\bleft behind\b": "retained",
    r"\blies free\b": "is free",
    r"\bas a rule\b": "usually",
    r"\bin so many words\b": "leave it out",
    r"\bneed not be kept\b": "may be dropped",
    r"\bfurther than recordings\b": "more than any recording",
    r"(?<!there )\b(is|are) no (regular )?(file|folder|number|size|recording|log|state)\b": "is not a ...",
    r"\bcomes? to (nothing|this)\b": "say what happens",
    r"\bit is said\b": "the output says",
    r"\bThe same for \w+\.": "say what is done",
}
KINDS = (".md", ".rs", ".py", ".ts", ".tsx", ".sh", ".mjs", ".toml", ".yml")
# Other projects' words, generated files, and texts in which the phrase is the subject.
LEFT_OUT = re.compile(r"CHANGELOG\.md|CODE_OF_CONDUCT\.md|/generated/|/page/|\.snap$|fuzz/corpus|plain-english\.py|package-lock")


def main() -> int:
    names = sys.argv[1:] or subprocess.run(["git", "ls-files"], check=True, capture_output=True, text=True).stdout.splitlines()
    found = 0
    for name in names:
        if not name.endswith(KINDS) and name != "test" or LEFT_OUT.search(name):
            continue
        for number, line in enumerate(pathlib.Path(name).read_text(encoding="utf-8").splitlines(), 1):
            for phrase, plain in PHRASES.items():
                if re.search(phrase, line):
                    found += 1
                    print(f"{name}:{number}: {line.strip()}\n    plainer: {plain}")
    return int(found > 0)


if __name__ == "__main__":
    sys.exit(main())
