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

/// The content type of [`text`]: OpenMetrics, which every Prometheus since 2.5 reads.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A metric. In the text, its full name is `vramscope_`, the name, the unit, and `_total` where it is a counter.
///
/// A counter and a gauge must not have the same name and unit, because OpenMetrics does not tell them apart.
struct Metric {
    name: &'static str,
    help: &'static str,
    unit: Option<Unit>,
    value: Value,
}

/// How the value of a metric is read; `None` where the source does not know it.
enum Value {
    /// A value that goes up and down.
    Gauge(fn(&Scraped) -> Option<u64>),
    /// A count that only grows, kept by the source.
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
    Metric::number("up", Gauge(|s| Some(s.up.into())), "Whether the source answered (1) or not (0)."),
    Metric::bytes("requested", Gauge(|s| s.now.requested), "What callers asked for."),
    Metric::bytes("allocated", Gauge(|s| s.now.allocated), "Blocks handed out, after rounding."),
    Metric::bytes(
        "active",
        Gauge(|s| s.now.active),
        "Allocated, and freed but still waiting for another stream.",
    ),
    Metric::bytes("reserved", Gauge(|s| s.now.reserved), "Taken from the device by the pool."),
    Metric::bytes(
        "inactive_split",
        Gauge(|s| s.inactive_split),
        "Free in segments of which something is in use.",
    ),
    Metric::bytes("device_used", Gauge(|s| s.now.device_used), "In use on the device by anyone."),
    Metric::bytes("device_total", Gauge(|s| s.now.device_total), "The whole device."),
    Metric::bytes(
        "hidden",
        Gauge(|s| s.now.hidden()),
        "In use on the device and not reserved by the pool; by anyone, where the source cannot tell processes apart.",
    ),
    Metric::bytes(
        "process_used",
        Gauge(|s| s.now.process_used),
        "What the process has on the device, as the driver counts it.",
    ),
    Metric::bytes("host_resident", Gauge(|s| s.now.cpu), "Resident memory of the process on the host."),
    Metric::bytes(
        "peak_allocated",
        Gauge(|s| s.peak.allocated),
        "The most allocated since the endpoint began; see vramscope_peak_is_exact.",
    ),
    Metric::bytes(
        "peak_reserved",
        Gauge(|s| s.peak.reserved),
        "The most reserved since the endpoint began; see vramscope_peak_is_exact.",
    ),
    Metric::number(
        "peak_is_exact",
        Gauge(|s| s.peak.allocated.or(s.peak.reserved).map(|_| s.peak_is_exact.into())),
        "Whether the peaks saw everything (1) or are the highest of what was scraped (0).",
    ),
    Metric::number("allocations", Counter(|s| Some(s.now.counts?.num_allocations)), "Blocks handed out."),
    Metric::number("frees", Counter(|s| Some(s.now.counts?.num_frees)), "Blocks given back."),
    Metric::bytes(
        "allocations",
        Counter(|s| Some(s.now.counts?.allocated_bytes)),
        "Bytes of the blocks handed out.",
    ),
    Metric::bytes("frees", Counter(|s| Some(s.now.counts?.freed_bytes)), "Bytes of the blocks given back."),
    Metric::number(
        "alloc_retries",
        Counter(|s| Some(s.now.counts?.num_alloc_retries)),
        "Attempts after all cached blocks had been given back.",
    ),
    Metric::number(
        "ooms",
        Counter(|s| Some(s.now.counts?.num_ooms)),
        "Requests that failed for want of memory.",
    ),
];

/// The labels of a source. No two sources of an endpoint have the same ones.
pub(super) type Labels = [(&'static str, String); 2];

/// The labels of each source: its name and device. Where a source before it has the same, a number is added to the name.
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

/// The text of a scrape.
///
/// # Errors
/// None is known: writing to a string does not fail.
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
