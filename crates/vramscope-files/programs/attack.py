"""Attacks the outputs of the command as another user of the machine, many times.

    sudo python3 attack.py VRAMSCOPE [TIMES]

VRAMSCOPE is the command. Each of its runs writes an output into a folder that all users can write to: with mode 1777, as
/tmp, and with mode 0777. Meanwhile a process of another user swaps pipes, links and files under the name of the output,
and in a folder with mode 0777 also the unfinished files. The kernel's own protection (fs.protected_fifos,
fs.protected_symlinks, fs.protected_regular) is off during the attack. The program prints the number of runs, and what
the other user achieved. The exit code is 0 if that is nothing, and 3 if the protection cannot be turned off.
"""

import array
import collections
import contextlib
import fcntl
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import termios
import time
from pathlib import Path

ATTACKER = 65534
# Root and a user without rights.
VICTIMS = (0, 65533)
SECRET = b"the user's own file, with mode 600\n"
# Seconds until a command counts as hanging.
HANGS = 20
SETTINGS = ("protected_fifos", "protected_symlinks", "protected_regular")
ROOT = Path(__file__).resolve().parents[3]


def protection(values):
    """Sets the kernel's protection, and returns the former values."""
    former = {}
    for name in SETTINGS:
        path = Path("/proc/sys/fs", name)
        former[name] = path.read_text().strip()
        try:
            path.write_text(values[name])
        except OSError as error:
            print(f"{path} cannot be written ({error}): run this as root of the machine", file=sys.stderr)
            sys.exit(3)
    return former


class Attacker:
    """The other user's process: swaps entries of a folder until it is told to stop."""

    def __init__(self, folder, output, secret, decoy, attacks_output, attacks_parts, pause):
        self.folder, self.output, self.secret, self.decoy = folder, output, secret, decoy
        self.attacks_output, self.attacks_parts = attacks_output, attacks_parts
        # Seconds between two swaps, at most.
        self.pause = pause
        # Pipes and files of the other user, as path and descriptor. Some pipes have no reader: without one, a writer waits.
        self.own = []
        self.swaps = 0

    def run(self, pipe):
        """Attacks until SIGTERM, then reports the number of swaps and of bytes that arrived."""
        os.setgroups([])
        os.setresgid(ATTACKER, ATTACKER, ATTACKER)
        os.setresuid(ATTACKER, ATTACKER, ATTACKER)
        os.umask(0)
        self.make()
        stopped = []
        signal.signal(signal.SIGTERM, lambda *_: stopped.append(True))
        os.write(pipe, b"r")
        number = 0
        while not stopped:
            number += 1
            if self.attacks_output:
                self.put(self.output, number)
            if self.attacks_parts:
                for name in os.listdir(self.folder):
                    if name.endswith(".part") or name.startswith(".vramscope-part-"):
                        self.take(os.path.join(self.folder, name), number)
            time.sleep(random.random() * self.pause)
        arrived = sum(self.bytes_in(descriptor) for _, descriptor in self.own if descriptor is not None)
        os.write(pipe, array.array("q", [self.swaps, arrived]).tobytes())

    def put(self, path, number):
        """Plants an entry under a name, or removes it."""
        try:
            if number % 5 == 0:
                os.unlink(path)
            else:
                new = os.path.join(self.decoy, "new")
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(new)
                own = random.choice(self.own)[0]
                if number % 5 in (1, 2):
                    os.link(own, new)
                else:
                    os.symlink(self.secret if number % 5 == 3 else own, new)
                os.rename(new, path)
            self.swaps += 1
        except OSError:
            pass

    def take(self, path, number):
        """Moves an unfinished file or folder away, and plants an entry under its name."""
        try:
            is_folder = stat.S_ISDIR(os.lstat(path).st_mode)
            os.rename(path, os.path.join(self.folder, f"taken-{number}"))
            if is_folder:
                if number % 2:
                    os.symlink(self.decoy, path)
                else:
                    os.mkdir(path, 0o777)
            else:
                self.put(path, 1 + number % 4)
            self.swaps += 1
        except OSError:
            pass

    def make(self):
        """Creates pipes and files that all users can write to."""
        for number in range(9):
            path = os.path.join(self.decoy, f"own-{number}")
            if number % 3:
                os.mkfifo(path, 0o666)
            flags = os.O_RDWR | os.O_NONBLOCK | os.O_CREAT
            self.own.append((path, None if number % 3 == 2 else os.open(path, flags, 0o666)))

    @staticmethod
    def bytes_in(descriptor):
        found = os.fstat(descriptor)
        if not stat.S_ISFIFO(found.st_mode):
            return found.st_size
        waiting = array.array("i", [0])
        fcntl.ioctl(descriptor, termios.FIONREAD, waiting)
        return waiting[0]


# The arguments of each command before its output, the output in the folder, and the name under which entries are planted.
COMMANDS = {
    "file": (["export", "RECORDING", "--format", "csv", "-o"], "out.csv", "out.csv"),
    "log": (["monitor", "PID", "--duration", "0.05", "--interval", "0.005", "-o"], "out.jsonl", "out.jsonl"),
    "folder": (["split", "RECORDING", "--events", "500", "-o"], ".", "part-0000.pickle"),
    "dataset": (["export", "RECORDING", "--format", "parquet", "-o"], "./", "events"),
}


def attacked(vramscope, recording, mode, what, victim, attacks_output, pause, counts):
    """Runs a command once while the other user attacks it."""
    arguments, name, planted = COMMANDS[what]
    watched = subprocess.Popen(["sleep", "1000"], user=victim, group=victim, extra_groups=[])
    arguments = [{"RECORDING": str(recording), "PID": str(watched.pid)}.get(word, word) for word in arguments]
    with tempfile.TemporaryDirectory() as top, watched:
        os.chmod(top, 0o755)
        folder, decoy, own = (os.path.join(top, part) for part in ("shared", "decoy", "own"))
        for path, owner, bits in ((folder, victim, mode), (decoy, ATTACKER, 0o777), (own, victim, 0o700)):
            os.mkdir(path)
            os.chown(path, owner, owner)
            os.chmod(path, bits)
        secret = os.path.join(own, "secret")
        Path(secret).write_bytes(SECRET)
        os.chown(secret, victim, victim)
        os.chmod(secret, 0o600)
        os.chmod(own, 0o711)
        output = os.path.join(folder, name)
        path = os.path.join(folder, planted)
        attacker = Attacker(folder, path, secret, decoy, attacks_output, mode == 0o777, pause)
        reader, writer = os.pipe()
        process = os.fork()
        if process == 0:
            code = 1
            try:
                attacker.run(writer)
                code = 0
            finally:
                os._exit(code)
        os.close(writer)
        os.read(reader, 1)
        command = subprocess.Popen(
            [vramscope, *arguments, output],
            user=victim, group=victim, extra_groups=[], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
        try:
            said = command.communicate(timeout=HANGS)[1].decode()
        except subprocess.TimeoutExpired:
            command.kill()
            said = command.communicate()[1].decode()
            counts["commands that hung"] += 1
        watched.kill()
        os.kill(process, signal.SIGTERM)
        told = array.array("q")
        told.frombytes(os.read(reader, 16))
        os.close(reader)
        os.waitpid(process, 0)
        counts["runs"] += 1
        counts["swaps"] += told[0]
        counts["bytes that reached the other user"] += told[1]
        counts[f"{what}: exit code {command.returncode}"] += 1
        if "panicked" in said:
            counts["panics"] += 1
        counts["files changed"] += Path(secret).read_bytes() != SECRET
        for where, _, names in os.walk(decoy):
            owners = [os.lstat(os.path.join(where, each)).st_uid for each in names]
            counts["files written into a folder of the other user"] += sum(owner != ATTACKER for owner in owners)
        # Where the other user attacks the name itself in a folder with mode 0777, the output may be replaced after the end.
        if command.returncode == 0 and (mode == 0o1777 or not attacks_output):
            found = os.lstat(path)
            is_own = not stat.S_ISLNK(found.st_mode) and found.st_uid == victim and found.st_size > 0
            counts["exit code 0 without the output"] += not is_own


FAULTS = (
    "bytes that reached the other user",
    "files changed",
    "files written into a folder of the other user",
    "commands that hung",
    "exit code 0 without the output",
    "panics",
)


def main():
    vramscope, times = Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 1000
    former = protection(dict.fromkeys(SETTINGS, "0"))
    has_failed = False
    try:
        with tempfile.TemporaryDirectory() as top:
            # Where every user can read them.
            os.chmod(top, 0o755)
            command, recording = Path(top, "vramscope"), Path(top, "oom.pickle")
            shutil.copy(vramscope, command)
            shutil.copy(ROOT / "examples/oom.pickle", recording)
            for path in (command, recording):
                path.chmod(0o755)
            for mode in (0o1777, 0o777):
                counts, began = collections.Counter(), time.monotonic()
                kinds = list(COMMANDS)
                for number in range(times):
                    what = kinds[number % len(kinds)]
                    round_ = number // len(kinds)
                    # In half of the folders in which unfinished files can be swapped, only those are.
                    only_parts = mode == 0o777 and round_ // 2 % 2 == 1
                    pause = (0, 0.0001, 0.001, 0.01)[round_ // 4 % 4]
                    attacked(command, recording, mode, what, VICTIMS[round_ % 2], not only_parts, pause, counts)
                print(f"mode {mode:04o}: {counts.pop('runs')} runs in {time.monotonic() - began:.0f} s")
                for fault in FAULTS:
                    count = counts.pop(fault, 0)
                    print(f"  {fault}: {count}")
                    has_failed |= count > 0
                for name, count in sorted(counts.items()):
                    print(f"  {name}: {count}")
    finally:
        protection(former)
    return has_failed


if __name__ == "__main__":
    sys.exit(main())
