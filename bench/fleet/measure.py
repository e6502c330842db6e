"""Measures the time and memory of `vramscope fleet`, and checks its results.

    bench/run.py fleet [--ranks 64,512,4096] [--long RECORDING] [--runs N] [--executors 1,2]

Creates jobs of --ranks ranks with known differences, and runs `vramscope fleet` on each, without cached summaries and with
them. The result must name exactly the ranks that differ. Then measures 64 recordings of about 100,000 events, made from
RECORDING (default: examples/training.pickle.zst, repeated), against the sum of their single reports and the memory of one report.

With --executors it instead runs queries and `fleet` in one process and on clusters of that many executors on this machine,
each with one recording at a time. The results must be identical to the byte. This builds the feature `rollup` without link-time
optimization.
"""
import argparse, contextlib, json, multiprocessing, os, pathlib, shutil, socket, statistics, subprocess, sys, tempfile, time

from turns import ROOT, decompressed, measure

BINARY = str(ROOT / "target/dist/vramscope")


def options():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--ranks", type=lambda text: [int(n) for n in text.split(",")], default=[64, 512, 4096])
    ap.add_argument("--long", type=pathlib.Path, default=ROOT / "examples/training.pickle.zst")
    ap.add_argument("--times", type=int, default=19, help="number of repetitions of the events of RECORDING")
    ap.add_argument("--runs", type=int, default=3)
    ap.add_argument("--executors", type=lambda text: [int(n) for n in text.split(",")])
    return ap.parse_args()


def made(folder, *args):
    """Writes a fleet; returns its known differences by rank."""
    command = [str(ROOT / "target/dist/fleet-of"), folder, *map(str, args)]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def answer(folder):
    command = [BINARY, "fleet", folder, "--json", "--no-cache"]
    return json.loads(subprocess.run(command, capture_output=True, check=True).stdout)


def check(folder, ranks, known):
    """Checks that the result names exactly the ranks that differ."""
    told = answer(folder)
    unlike = sorted(kind["ranks"] for kind in told["kinds"] if not kind["is_usual"])
    found = {
        "broken": [rank["rank"] for rank in told["unread"]],
        "out_of_memory": [rank["rank"] for rank in told["out_of_memory"]],
        "leaks": [leak["ranks"] for leak in told["leaks"]],
        "unlike": unlike,
    }
    expected = {
        "broken": known["broken"],
        "out_of_memory": known["out_of_memory"],
        "leaks": [[known["leaks"]]],
        "unlike": sorted([known["larger_stage"], [known["leaks"]]]),
    }
    if found != expected or told["missing_ranks"] or told["fragmentation"]["above"]:
        sys.exit(f"{ranks} ranks: the answer names {found}, and different are {expected}")


def forget():
    shutil.rmtree(os.environ["XDG_CACHE_HOME"], ignore_errors=True)


def median(command, runs, before=lambda: None):
    results = []
    for _ in range(runs):
        before()
        results.append(measure(command))
    return statistics.median(s for s, _ in results), max(m for _, m in results)


EVENTS = "SELECT rank, action, line, count(*) AS n, sum(size_bytes) AS b FROM events GROUP BY 1, 2, 3 ORDER BY 1, 2, 3"
PEAKS = "SELECT rank, peak_allocated_bytes FROM summary ORDER BY rank"
NOTHING = "SELECT 1"


def port():
    """A free port whose successor is free too."""
    while True:
        with socket.socket() as first, socket.socket() as second:
            first.bind(("127.0.0.1", 0))
            number = first.getsockname()[1]
            with contextlib.suppress(OSError):
                second.bind(("127.0.0.1", number + 1))
                return number


@contextlib.contextmanager
def cluster(executors):
    """Starts a scheduler and executors that read one recording at a time; yields the scheduler's address."""
    processes = []

    def start(*args, at):
        processes.append(subprocess.Popen([BINARY, *args, "--listen", f"127.0.0.1:{at}"], stderr=subprocess.DEVNULL))
        while socket.socket().connect_ex(("127.0.0.1", at)):
            time.sleep(0.05)

    try:
        scheduler = port()
        start("fleet-scheduler", at=scheduler)
        for _ in range(executors):
            start("fleet-executor", "--scheduler", f"127.0.0.1:{scheduler}", "--jobs", "1", at=port())
        time.sleep(1)
        yield f"df://127.0.0.1:{scheduler}"
    finally:
        for process in processes:
            process.kill()
            process.wait()


def on_clusters(a):
    """Runs the same queries in one process and on clusters, over many small recordings and over some long ones."""
    environment = {**os.environ, "CARGO_PROFILE_RELEASE_LTO": "false", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    build = ["cargo", "build", "--profile", "dist", "--quiet", "-p", "vramscope-cli", "--features", "rollup"]
    subprocess.run(build, cwd=ROOT, check=True, env=environment)

    def asked(label, folder):
        commands = {
            "no recording": ["query", NOTHING, folder, "--format", "csv"],
            "events": ["query", EVENTS, folder, "--format", "csv", "--no-cache"],
            "summary": ["query", PEAKS, folder, "--format", "csv", "--no-cache"],
            "fleet": ["fleet", folder, "--json", "--no-cache"],
        }
        alone = {name: subprocess.run([BINARY, *args], capture_output=True).stdout for name, args in commands.items()}
        rows = {name: {0: median([BINARY, *args], a.runs), 1: median([BINARY, *args, "--jobs", "1"], a.runs)} for name, args in commands.items()}
        figures = {name: [f"in process {row[0][0]:.2f} s ({row[0][1]:.0f} MiB), one at a time {row[1][0]:.2f} s"] for name, row in rows.items()}
        for executors in a.executors:
            with cluster(executors) as url:
                for name, args in commands.items():
                    there = subprocess.run([BINARY, *args, "--cluster", url], capture_output=True)
                    if there.stdout != alone[name]:
                        sys.exit(f"{label}, {name}, {executors} executors: another answer\n{there.stderr.decode()}")
                    took, _ = median([BINARY, *args, "--cluster", url], a.runs)
                    figures[name].append(f"{executors} executor{'s' * (executors > 1)} {took:.2f} s")
        for name, told in figures.items():
            print(f"{label}, {name}: {', '.join(told)}")

    for ranks in a.ranks:
        with tempfile.TemporaryDirectory() as folder:
            made(folder, ranks, 7)
            asked(f"{ranks} ranks", folder)
    with tempfile.TemporaryDirectory() as folder:
        long, recordings = f"{folder}/long.pickle", f"{folder}/ranks"
        subprocess.run([str(ROOT / "target/dist/repeat"), decompressed(a.long, folder), long, str(a.times)], check=True)
        os.mkdir(recordings)
        for rank in range(16):
            os.link(long, f"{recordings}/rank{rank}.pickle")
        asked("16 ranks of 100,000 events", recordings)


def main():
    a = options()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache + "/cache"
        measured(a)


def measured(a):
    if a.executors:
        print(f"{os.cpu_count()} cores; medians of {a.runs} runs; the same answers to the byte")
        return on_clusters(a)
    print(f"{os.cpu_count()} cores; medians of {a.runs} runs")
    for ranks in a.ranks:
        with tempfile.TemporaryDirectory() as folder:
            known = made(folder, ranks, 7)
            # In a separate process, because this process's memory would count as that of the measured children.
            checked = multiprocessing.Process(target=check, args=(folder, ranks, known))
            checked.start()
            checked.join()
            if checked.exitcode != 0:
                sys.exit(1)
            one = next(pathlib.Path(folder).rglob("rank_*"))
            fleet = [BINARY, "fleet", folder]
            anew, memory = median(fleet + ["--no-cache"], a.runs)
            first, _ = median(fleet, a.runs, forget)
            again, kept_memory = median(fleet, a.runs)
            as_json, _ = median(fleet + ["--json"], a.runs)
            print(f"{ranks:5} ranks, the right ones named: read {anew:.2f} s ({anew / ranks * 1e3:.2f} ms a rank, {memory:.0f} MiB), "
                  f"read and stored {first:.2f} s, from stored summaries {again:.3f} s ({kept_memory:.0f} MiB), as JSON {as_json:.3f} s")
    with tempfile.TemporaryDirectory() as folder:
        long, recordings = f"{folder}/long.pickle", f"{folder}/ranks"
        repeat = [str(ROOT / "target/dist/repeat"), decompressed(a.long, folder), long, str(a.times)]
        subprocess.run(repeat, check=True)
        facts = json.loads(subprocess.run([BINARY, "info", long, "--json"], capture_output=True, check=True).stdout)
        os.mkdir(recordings)
        for rank in range(64):
            shutil.copy(long, f"{recordings}/rank{rank}.pickle")
        single, one = median([BINARY, "report", long, "--json"], 7)
        read, _ = median([BINARY, "info", long, "--json"], 7)
        all_ranks, memory = median([BINARY, "fleet", recordings, "--no-cache"], a.runs)
        kept, _ = median([BINARY, "fleet", recordings], a.runs, forget)
        bound = 64 * single / 2
        print(f"64 recordings of {sum(d['events'] for d in facts['devices']):,} events: {all_ranks:.2f} s and {memory:.0f} MiB ({kept:.2f} s with "
              f"stored summaries); one report {single:.3f} s and {one:.0f} MiB (info {read:.3f} s)")
        print(f"  {all_ranks / bound:.2f} times 64 reports divided by two cores, {memory / one:.1f} times the memory of one")


if __name__ == "__main__":
    main()
