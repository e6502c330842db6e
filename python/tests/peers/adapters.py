"""Peer names whose function has another name here, adapted for the peers' tests."""

from types import SimpleNamespace

from vramscope.profiler import TrackingEvent, hidden_memory
from vramscope.profiler._events import Identity

SCHEMA_VERSION_V2 = 2


class TelemetryEventV2(SimpleNamespace):
    """The peers' telemetry record, without field checks."""

    def __getattr__(self, name):
        raise AttributeError(f"no counterpart: PACKAGE.telemetry.TelemetryEventV2.{name}")


class MemoryAnalyzer:
    """The peers' analyzer; only its classes of hidden memory exist here."""

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
        # The peers do not report constant memory as a finding.
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
        # Texts common to all findings are in the book here.
        texts = {"description": classification, "remediation": ["docs/watch.md"]}
        return SimpleNamespace(
            classification=classification, severity=severity, confidence=confidence, evidence=evidence, **texts
        )


def resolve_distributed_identity(*, job_id=None, rank=None, local_rank=None, world_size=None, env=None):
    return Identity.of(job_id, rank, local_rank, world_size, env or {}).to_dict()
