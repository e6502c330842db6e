//! The table of metrics, and the text of a scrape.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::text::encode;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::scraped_source::Scraped;
use crate::source::MemorySource;

/// The content type of [`text`]: OpenMetrics, which Prometheus reads since version 2.5.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric. Its full name in the text is `vramscope_`, the name, the unit, and `_total` for a counter.
///
/// A counter and a gauge must not have the same name and unit, because OpenMetrics does not distinguish them.
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: Value,
}

/// Reads the value of a metric; `None` if the source does not provide it.
enum Value {
    /// A value that rises and falls.
    Gauge(fn(&Scraped) -> Option<u64>),
    /// A count that only grows, maintained by the source.
    Counter(fn(&Scraped) -> Option<u64>),
}
use Value::{Counter, Gauge};

impl Metric {
    const fn number(name: &'static str, value: Value, help: &'static str) -> Self {
        Self { name, help, unit: None, value }
    }

    const fn bytes(name: &'static str, value: Value, help: &'static str) -> Self {
        Self { name, help, unit: Some(Unit::Bytes), value }
    }
}

static METRICS: [Metric; 20] = [
    Metric::number("up", Gauge(|s| Some(s.up.into())), "1 if the source responded, 0 otherwise."),
    Metric::bytes("requested", Gauge(|s| s.now.requested), "Bytes that callers requested."),
    Metric::bytes("allocated", Gauge(|s| s.now.allocated), "Bytes of allocated blocks, after rounding."),
    Metric::bytes(
        "active",
        Gauge(|s| s.now.active),
        "Allocated bytes, plus freed bytes that still wait for another stream.",
    ),
    Metric::bytes("reserved", Gauge(|s| s.now.reserved), "Bytes that the pool allocated from the device."),
    Metric::bytes("inactive_split", Gauge(|s| s.inactive_split), "Free bytes in segments with a live block."),
    Metric::bytes("device_used", Gauge(|s| s.now.device_used), "Bytes used on the device by all processes."),
    Metric::bytes("device_total", Gauge(|s| s.now.device_total), "Size of the device."),
    Metric::bytes(
        "hidden",
        Gauge(|s| s.now.hidden()),
        "Bytes used on the device but not reserved by the pool; by all processes if the source cannot distinguish them.",
    ),
    Metric::bytes(
        "process_used",
        Gauge(|s| s.now.process_used),
        "Bytes of the process on the device, as the driver counts them.",
    ),
    Metric::bytes("host_resident", Gauge(|s| s.now.cpu), "Resident memory of the process on the host."),
    Metric::bytes(
        "peak_allocated",
        Gauge(|s| s.peak.allocated),
        "Peak of allocated bytes since the endpoint started; see vramscope_peak_is_exact.",
    ),
    Metric::bytes(
        "peak_reserved",
        Gauge(|s| s.peak.reserved),
        "Peak of reserved bytes since the endpoint started; see vramscope_peak_is_exact.",
    ),
    Metric::number(
        "peak_is_exact",
        Gauge(|s| s.peak.allocated.or(s.peak.reserved).map(|_| s.peak_is_exact.into())),
        "1 if the peaks are exact, 0 if they are the highest scraped values.",
    ),
    Metric::number("allocations", Counter(|s| Some(s.now.counts?.num_allocations)), "Allocated blocks."),
    Metric::number("frees", Counter(|s| Some(s.now.counts?.num_frees)), "Freed blocks."),
    Metric::bytes(
        "allocations",
        Counter(|s| Some(s.now.counts?.allocated_bytes)),
        "Bytes of allocated blocks, in total.",
    ),
    Metric::bytes("frees", Counter(|s| Some(s.now.counts?.freed_bytes)), "Bytes of freed blocks, in total."),
    Metric::number(
        "alloc_retries",
        Counter(|s| Some(s.now.counts?.num_alloc_retries)),
        "Allocation attempts after releasing all cached blocks.",
    ),
    Metric::number(
        "ooms",
        Counter(|s| Some(s.now.counts?.num_ooms)),
        "Requests that failed because memory ran out.",
    ),
];

/// The labels of a source, unique within an endpoint.
pub(super) type Labels = [(&'static str, String); 2];

/// Returns the labels of each source: its name and device. If an earlier source has the same, a number is appended to the name.
pub(super) fn labels(sources: &[Arc<dyn MemorySource>]) -> Vec<Labels> {
    let mut taken = BTreeSet::new();
    let labels = sources.iter().map(|source| {
        let name = &source.info().name;
        let mut labels = [("source", name.clone()), ("device", source.info().device())];
        let mut number = 2;
        while !taken.insert(labels.clone()) {
            labels[0].1 = format!("{name} ({number})");
            number += 1;
        }
        labels
    });
    labels.collect()
}

/// Formats the text of a scrape.
///
/// # Errors
/// No error is known: writing to a string does not fail.
pub(super) fn text(seen: Vec<(Labels, Scraped)>) -> Result<String, fmt::Error> {
    let mut registry = Registry::with_prefix("vramscope");
    registry.register_collector(Box::new(SourceCollector(seen)));
    let mut text = String::new();
    encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct SourceCollector(Vec<(Labels, Scraped)>);

impl Collector for SourceCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Metric { name, help, unit, value } in &METRICS {
            let (Gauge(of) | Counter(of)) = value;
            let as_metric = |number| -> Box<dyn EncodeMetric> {
                match value {
                    Gauge(_) => Box::new(ConstGauge::new(number)),
                    Counter(_) => Box::new(ConstCounter::new(number)),
                }
            };
            let known = self.0.iter().filter_map(|(labels, seen)| Some((labels, as_metric(of(seen)?))));
            let known: Vec<_> = known.collect();
            let Some((_, first)) = known.first() else { continue };
            let mut family = encoder.encode_descriptor(name, help, unit.as_ref(), first.metric_type())?;
            for (labels, metric) in &known {
                metric.encode(family.encode_family(*labels)?)?;
            }
        }
        Ok(())
    }
}
