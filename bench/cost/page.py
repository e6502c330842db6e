"""The questions of the page: asks a served page each of them, and measures the server's processor time and peak memory."""

import contextlib
import json
import os
import subprocess
import time
import urllib.error
import urllib.request

TICK = os.sysconf("SC_CLK_TCK")
NAMED = {"text": "train", "is_pattern": False}
SEARCH = {"is": "frame", "field": "any", "sought": NAMED}
PATTERN = {"is": "frame", "field": "any", "sought": {"text": "x+y|t.*n", "is_pattern": True}}


def questions(end, peak):
    """All questions, for a device with moments from 0 to `end`."""
    whole = {"from": 0, "to": end}
    both = {"other_file": 1, "other_device": 0, "other_from": 0, "other_to": end}
    window = {"axis": "events", **whole, "width": 1200}
    live = {"moment": peak, "by": "line", "calls": "all", "inverted": False, "before": 0, "search": SEARCH, "only_found": False}
    table = {"search": SEARCH, "among": {"are": "all"}, "sort": "line", "descending": True, "first": 0, "count": 50, "find": 0}
    moments = {"moment": peak, "other_file": 1, "other_device": 0, "other_moment": peak}
    asked = {
        "names": {},
        "picture": {**window, "stacked": "allocated", "height": 600, "low": 0, "high": None, "fit_reserved": True, "only": None},
        "picture of reserved": {**window, "stacked": "reserved", "height": 600, "low": 0, "high": None, "fit_reserved": True, "only": SEARCH},
        "bands": {**window, "only": None},
        "meaning": {},
        **{f"live by {by}": {**live, "by": by} for by in ("stack", "line", "module", "pool", "stream", "category", "layer", "step")},
        "live inverted": {**live, "inverted": True, "zoom": [0], "transforms": [{"does": "collapse_libraries", "expanded": []}]},
        "holders_of_both": {**moments, "by": "line", "search": None},
        "interval": {**whole, "by": "line", "search": SEARCH, "before": [0, end]},
        "groups": {"by": "stack"},
        "legend": {**whole, "by": "stack", "reserved": False, "most": 50, "search": SEARCH, "only_found": True},
        "highest_of_both": {**whole, **both, "by": "line", "search": None},
        "first_difference": {**whole, **both},
        "layout": {"moment": end},
        "holes": {"moment": end},
        "hole": {"moment": end, "address": 0x7F0000000000},
        "pool": {"pool": None, "moment": peak, "by": "line"},
        "events": {"first": 0, "count": 1000},
        "allocation": {"id": 0},
        "search": {"search": {"is": "any", "of": [SEARCH, PATTERN]}},
        "search by region": {"search": {"is": "region", "sought": NAMED}},
        "allocations": table,
        "allocations by region": {**table, "sort": "region", "search": None},
        "source_lines": {"frame": None, "moment": peak, "only": None},
        "specks": {**window, "search": SEARCH, "bytes": 1024},
        "place": {"id": 0, "stacked": "allocated", "only": None},
        "markers": {},
        "regions": {},
        "operator_lanes": {},
        "operator_picture": {**window, "lanes": [[0, 8]]},
        "in_flight": {**whole, "allocation": None},
        "operator": {"lane": 0, "span": 0},
        "segments": {},
        "report": {},
        "replay": {},
        "marked": {"marks": ["layer:*=checkpoint"]},
        "comparison": {"other_file": 1, "other_device": 0},
    }
    named = (("picture", "picture"), ("live", "live"), ("search", "search"), ("allocations", "allocations"))
    return {name: {"question": next((q for start, q in named if name.startswith(start)), name), **query} for name, query in asked.items()}


class Page:
    """A server of a recording, twice, so that it can be compared with itself."""

    def __init__(self, binary, file, seconds):
        command = [binary, "view", "--no-open", file, file]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.url = self.process.stdout.readline().strip()
        self.seconds = seconds

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def cpu(self):
        with open(f"/proc/{self.process.pid}/stat") as f:
            fields = f.read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICK

    def highest(self):
        """Peak memory in MiB since the last call of `forget`."""
        with open(f"/proc/{self.process.pid}/status") as f:
            return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) / 1024

    def forget(self):
        with open(f"/proc/{self.process.pid}/clear_refs", "w") as f:
            f.write("5")

    def request(self, path, body=None):
        request = urllib.request.Request(self.url + path, data=body)
        with urllib.request.urlopen(request, timeout=self.seconds) as reply:
            return reply.read()

    def measured(self, path, body=None):
        """Processor seconds and peak MiB of one request; `None` if it is refused, infinite if it takes too long."""
        try:
            self.forget()
            before = self.cpu()
        except OSError:
            return None
        try:
            self.request(path, body)
        except urllib.error.HTTPError:
            return None
        except (TimeoutError, urllib.error.URLError, ConnectionError):
            # A server that cannot read its file ends.
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(2)
            return None if self.process.poll() is not None else (float("inf"), float("inf"))
        time.sleep(0.02)
        return self.cpu() - before, self.highest()


def measured(binary, file, seconds):
    """Processor seconds and peak MiB of each question of the page, by name."""
    with Page(binary, str(file), seconds) as page:
        results = {"open": page.measured("api/recordings")}
        if results["open"] is None or results["open"][0] == float("inf"):
            return {"open": results["open"]}
        first = json.loads(page.request("api/recordings"))[0]
        if not first or not first["devices"]:
            return results
        device = first["devices"][0]
        for name, question in questions(device["events"], device["peaks"]["allocated"]["moment"]).items():
            results[name] = page.measured("api/0/0/ask", json.dumps(question).encode())
            if results[name] and results[name][0] == float("inf"):
                break
        return results
