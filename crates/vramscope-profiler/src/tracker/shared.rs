//! The state that a tracker shares with its thread: events, samples, statistics, callbacks and thresholds.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use super::AlertCallback;
use super::events::{EventKind, Row, TrackerEvent};
use super::log::OpenLog;
use super::options::TrackerStatistics;
use super::phase_scope::{OpenPhases, PhaseScope, PhasedSample};
use super::thresholds::{Alert, Threshold};
use crate::monitor::Sample;
use crate::snapshot::now_us;
use crate::source::MemorySource;
use vramscope_basics::lock;

pub(super) struct TrackerShared {
    pub(super) source: Arc<dyn MemorySource>,
    pub(super) state: Mutex<TrackerState>,
    pub(super) callbacks: Mutex<Vec<RegisteredCallback>>,
    pub(super) phases: Mutex<OpenPhases>,
    /// The thresholds that apply from the next sample on.
    pub(super) thresholds: Mutex<Thresholds>,
    pub(super) max_events: usize,
    pub(super) max_samples: usize,
}

/// The thresholds, and the number of their changes.
#[derive(Default)]
pub(super) struct Thresholds {
    pub(super) now: Vec<Threshold>,
    pub(super) changes: u64,
}

/// A callback, and the number of alerts for which it was called.
pub(super) struct RegisteredCallback {
    pub(super) callback: AlertCallback,
    pub(super) alerts: u64,
}

pub(super) struct TrackerState {
    pub(super) alerts: VecDeque<Alert>,
    /// Thresholds whose value was never known.
    pub(super) never_measured: Vec<Threshold>,
    pub(super) events: VecDeque<TrackerEvent>,
    pub(super) samples: VecDeque<PhasedSample>,
    pub(super) statistics: TrackerStatistics,
    /// Total number of raised alerts.
    pub(super) raised: u64,
    pub(super) log: Option<OpenLog>,
}

impl TrackerShared {
    /// Calls each callback for its outstanding alerts.
    pub(super) fn call_alert_callbacks(&self) {
        loop {
            let next = {
                let mut callbacks = lock(&self.callbacks);
                let state = lock(&self.state);
                let raised = state.raised;
                callbacks.iter_mut().find(|told| told.alerts < raised).map(|told| {
                    let kept = state.alerts.len() as u64;
                    let missed = raised - std::mem::replace(&mut told.alerts, raised);
                    let alerts = state.alerts.iter().skip((kept - missed.min(kept)) as usize);
                    (Arc::clone(&told.callback), alerts.cloned().collect::<Vec<_>>())
                })
            };
            // Without a lock, because a callback is code of the program and may use the tracker.
            let Some((callback, alerts)) = next else { return };
            for alert in alerts {
                if catch_unwind(AssertUnwindSafe(|| callback(&alert))).is_err() {
                    lock(&self.state).statistics.callback_panics += 1;
                }
            }
        }
    }

    pub(super) fn record_event(&self, kind: EventKind) {
        let mut state = lock(&self.state);
        state.record_event(TrackerEvent { time_us: now_us(), kind }, self.max_events);
        state.write_waiting();
    }
}

impl TrackerState {
    pub(super) fn record_event(&mut self, event: TrackerEvent, most: usize) {
        if let Some(log) = &mut self.log {
            log.add(Row::Event(&event));
        }
        let seen = &mut self.statistics;
        match &event.kind {
            EventKind::Alert(alert) => {
                seen.alerts += 1;
                self.raised += 1;
                self.alerts.push_back(alert.clone());
                while self.alerts.len() > most {
                    self.alerts.pop_front();
                }
            }
            EventKind::Cleanup { .. } => seen.cleanups += 1,
            EventKind::OutOfMemory(n) => seen.failed_requests += n,
            EventKind::Retry(n) => seen.retries += n,
            _ => {}
        }
        self.events.push_back(event);
        while self.events.len() > most {
            self.events.pop_front();
        }
    }

    pub(super) fn record_sample(&mut self, sample: Sample, phases: Arc<[Arc<PhaseScope>]>, most: usize) {
        let phased = PhasedSample { sample, phases };
        if let Some(log) = &mut self.log {
            log.add(Row::Sample(&phased));
        }
        let seen = &mut self.statistics;
        seen.samples += 1;
        seen.missed_ticks += sample.missed;
        seen.high = seen.high.max(sample.tick.high);
        seen.high_is_exact &= sample.tick.high_is_exact;
        self.samples.push_back(phased);
        while self.samples.len() > most {
            self.samples.pop_front();
        }
    }

    pub(super) fn write_waiting(&mut self) {
        if let Some(log) = &mut self.log {
            log.write_waiting();
        }
    }
}
