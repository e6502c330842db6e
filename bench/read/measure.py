"""Measures reading a recording against CPython's own unpickler, in one run.

    bench/run.py read [RECORDING] [--runs N] [--times 1,10,78] [--against BINARY]

RECORDING is a snapshot, as pickle or compressed with zstd (default: the large one beside the checkout, see
CONTRIBUTING.md). It is read uncompressed, compressed with zstd against `zstd -dc` before the unpickler, and on one
core. Runs alternate; each is a whole process, timed from start to end. Prints medians and ratios, then the cost of the
report for the recording repeated --times times (78 times are 4.2 GB on the disk). BINARY is another build of the
command, measured in the same alternating runs, such as the one before a change.
"""
import json, os, subprocess, tempfile

from turns import compressed, decompressed, grown, line, options, parsed, turns

UNPICKLE = "import pickle, sys; pickle.load(sys.stdin.buffer)"


def main():
    a, binaries = parsed(options(__doc__))
    with tempfile.TemporaryDirectory() as folder:
        plain, packed = decompressed(a.recording, folder), compressed(a.recording, folder)
        facts = [binaries["vramscope"], "info", plain, "--json"]
        facts = json.loads(subprocess.run(facts, capture_output=True, check=True).stdout)
        events = sum(d["events"] for d in facts["devices"])
        print(f"{a.recording.name}: {events:,} events, {os.path.getsize(plain) / 1e6:.1f} MB, medians of {a.runs} runs")

        commands = {
            "pickle.load": ["python3", "-c", UNPICKLE.replace("sys.stdin.buffer", "open(sys.argv[1], 'rb')"), plain],
            "zstd -dc | pickle.load": ["sh", "-c", 'zstd -dcq "$1" | python3 -c "$2"', "sh", packed, UNPICKLE],
        }
        for name, binary in binaries.items():
            commands |= {
                f"{name} info": [binary, "info", plain],
                f"{name} info, .zst": [binary, "info", packed],
                f"{name} info, one core": ["taskset", "-c", "0", binary, "info", plain],
                f"{name} info, .zst, one core": ["taskset", "-c", "0", binary, "info", packed],
                f"{name} report": [binary, "report", plain],
            }
        results = {name: line(name, r) for name, r in turns(commands, a.runs).items()}
        (python, python_memory), (piped, _) = results["pickle.load"], results["zstd -dc | pickle.load"]
        for name in binaries:
            (read, memory), (report, _) = results[f"{name} info"], results[f"{name} report"]
            print(f"  {name}: the read (info) is {python / read:.1f} times as fast as pickle.load, in "
                  f"{memory / python_memory:.1%} of its memory; from .zst {piped / results[f'{name} info, .zst'][0]:.1f} times; "
                  f"on one core {python / results[f'{name} info, one core'][0]:.1f} times")
            print(f"  {name}: the report takes {report / read:.2f} times the read")
        print(f"  a trace holds {facts['bytes_per_event']} bytes an event beside its stacks")

        grown(plain, folder, binaries, "report", a)


if __name__ == "__main__":
    main()
