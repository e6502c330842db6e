"""Measures the cost of the pool, its hooks and its history against glibc's malloc, in one run.

    bench/run.py pool [--no-run]

Runs the criterion benchmark `pool`, reads its medians from target/criterion, and prints them with ratios. --no-run
only reads. Run it on an idle machine: the lines about threads show whether two threads had two cores.
"""
import json, subprocess, sys

from turns import ROOT


def median(group, name):
    path = ROOT / "target/criterion" / group / name / "new/estimates.json"
    return json.loads(path.read_text())["median"]["point_estimate"]


def main():
    if "--no-run" not in sys.argv[1:]:
        subprocess.run(["cargo", "bench", "-p", "vramscope-bench", "--bench", "pool"], cwd=ROOT, check=True,
                       stdout=subprocess.DEVNULL)
    print("malloc and free of a cached block        ns     times glibc")
    for size in ("1KiB", "64KiB", "2MiB"):
        glibc = median(f"cached-{size}", "glibc")
        print(f"  {size:>6}  glibc                   {glibc:8.1f}")
        for policy in ("cupy", "torch"):
            ns = median(f"cached-{size}", policy)
            print(f"          {policy:<6}                  {ns:8.1f}   {ns / glibc:6.1f}")
    never = median("hooks", "never")
    print("hooks, 1 KiB")
    print(f"  no hook                         {never:8.1f}")
    print(f"  an empty hook                   {median('hooks', 'empty'):8.1f}   {median('hooks', 'empty') - never:+6.1f} ns")
    print(f"  an empty hook of the pool       {median('hooks', 'empty-of-pool'):8.1f}   {median('hooks', 'empty-of-pool') - never:+6.1f} ns")
    print(f"  after it was removed            {median('hooks', 'removed'):8.1f}   {median('hooks', 'removed') - never:+6.1f} ns")
    cached, planned = median("plan", "cached"), median("plan", "planned")
    print(f"20 blocks in a row, from the cache {cached:8.1f}, planned {planned:8.1f}   {planned / cached:6.2f} times")
    print("a thread beside another, on streams of their own")
    for name, alone, beside in (("pool", "alone", "beside"), ("glibc", "glibc-alone", "glibc-beside")):
        a, b = median("threads", alone), median("threads", beside)
        print(f"  {name:<6} alone, beside            {a:8.1f} {b:8.1f}   {100 * (b / a - 1):+5.1f} %")
    print("recorded native stacks of so many frames from the caller of malloc to the first; the profiler's own come on top")
    for frames in (30, 50):
        with_, without = median("stacks", f"history-with-{frames}"), median("stacks", f"history-without-{frames}")
        # A malloc captures one stack, and a free captures another one.
        stack = (with_ - without) / 2
        print(f"  {frames} frames                       {stack:8.1f}   {stack / frames:6.1f} ns a frame")
    for frames in (30, 50):
        plain, profiled = median("stacks", f"unobserved-{frames}"), median("stacks", f"line-profile-{frames}")
        print(f"LineProfileHook, depth {frames}: malloc and free   {profiled - plain:8.1f} ns more")
    size = subprocess.run([ROOT / "target/dist/history-size"], check=True, capture_output=True, text=True).stdout.strip()
    print(f"a million events of history: {size} bytes each, stacks included")


main()
