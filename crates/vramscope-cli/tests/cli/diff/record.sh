#!/bin/sh
# Records train.py once unchanged and once with each change. Needs PyTorch 2.11, the Python package (for --tags) and zstd.
set -eu
record() {
    out=$1 program=$2
    shift 2
    vramscope phantom run --once --gpu rtx4090 -- python "$program" "$@" "$out.pickle"
    zstd -19 --quiet --rm --force "$out.pickle"
}
for kind in "tagged --tags" "plain --stacks=python" "all --stacks=all"; do
    name=${kind% *} how=${kind#* }
    record "$name-base" train.py "$how"
    record "$name-batch" train.py "$how" --batch 16
    record "$name-checkpoint" train.py "$how" --checkpoint
    record "$name-adamw" train.py "$how" --optimizer adamw
    record "$name-leak" train.py "$how" --leak
done
# The edit moves lines, and the program is in another folder.
mkdir -p elsewhere
sed 's/^def train/\n\n# A comment.\ndef train/; s/^    kept = /    # Another.\n    kept = /; s/^        y = self.norm/        # One more.\n        y = self.norm/' \
    train.py >elsewhere/train.py
record edited-batch elsewhere/train.py --tags --batch 16
rm -r elsewhere
