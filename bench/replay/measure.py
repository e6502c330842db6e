"""Measures the speed of replays.

    bench/run.py replay [RECORDING] [--runs N] [--times 1,10,78] [--against BINARY]

RECORDING is a snapshot, as pickle or compressed with zstd (default: the large one beside the checkout, see
CONTRIBUTING.md). It is decompressed first. Prints medians: the events per second on one core, from the history to the
last step, under several settings; then the time of the whole command with its table of settings, including the read;
then both for the recording repeated --times times (78 times are 4.2 GB on the disk). BINARY is another build
of the command, measured in the same alternating runs.
"""
import subprocess, tempfile

from turns import ROOT, decompressed, grown, line, options, parsed, turns


def main():
    a, binaries = parsed(options(__doc__))
    with tempfile.TemporaryDirectory() as folder:
        file = decompressed(a.recording, folder)
        print(a.recording.name)
        subprocess.run([str(ROOT / "target/dist/replay-speed"), file, str(a.runs)], check=True)
        print(f"The whole command, medians of {a.runs} runs:")
        commands = {}
        for name, binary in binaries.items():
            commands |= {
                f"{name}: the table of settings": [binary, "replay", file],
                f"{name}: one setting": [binary, "replay", file, "--conf", "expandable_segments:True"],
                f"{name}: report": [binary, "report", file],
            }
        for name, results in turns(commands, a.runs).items():
            line(name, results)
        grown(file, folder, binaries, "replay", a)


if __name__ == "__main__":
    main()
