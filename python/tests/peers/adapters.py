"""Names of theirs whose work is done here under another name, so that their tests can ask for it."""

from types import SimpleNamespace

from vramscope.profiler import TrackingEvent, hidden_memory
from vramscope.profiler._events import Identity

SCHEMA_VERSION_V2 = 2


class TelemetryEventV2(SimpleNamespace):
    """A record of their telemetry: its fields, unchecked."""

    def __getattr__(self, name):
        raise AttributeError(f"no counterpart: PACKAGE.telemetry.TelemetryEventV2.{name}")


class MemoryAnalyzer:
    """Their analyzer, of which the classes of hidden memory are here."""

    def __getattr__(self, name):
        raise AttributeError(f"no counterpart: PACKAGE.analyzer.MemoryAnalyzer.{name}")

    def analyze_memory_gaps(self, events):
        samples = [
            TrackingEvent(
                timestamp=event.timestamp_ns / 1e9,
                event_type=event.event_type,
                memory_allocated=event.allocator_allocated_bytes,
                memory_reserved=event.allocator_reserved_bytes,
                memory_change=event.allocator_change_bytes,
                device_id=event.device_id,
                inactive_split=event.allocator_inactive_bytes,
                device_used=event.device_used_bytes,
                device_total=event.device_total_bytes,
            )
            for event in events
        ]
        # What is there all the time is no finding of theirs.
        findings = [found for found in hidden_memory(samples)["findings"] if found["classification"] != "constant"]
        return [self._finding(**found) for found in findings]

    def _finding(self, classification, severity, confidence, **numbers):
        theirs = {
            "slope_bytes_per_sec": "bytes_per_second",
            "spike_count": "samples",
            "max_zscore": "deviations",
            "avg_fragmentation_ratio": "average_ratio",
        }
        evidence = numbers | {name: numbers[ours] for name, ours in theirs.items() if ours in numbers}
        # Texts that are the same for every finding are the book's here.
        texts = {"description": classification, "remediation": ["docs/watch.md"]}
        return SimpleNamespace(
            classification=classification, severity=severity, confidence=confidence, evidence=evidence, **texts
        )


def resolve_distributed_identity(*, job_id=None, rank=None, local_rank=None, world_size=None, env=None):
    return Identity.of(job_id, rank, local_rank, world_size, env or {}).to_dict()
