//! An open recording.

use std::sync::{Arc, OnceLock};

use vramscope_analysis::{Cancel, Frames, History, RecordingFacts, When};
use vramscope_report::{Advice, Compared, InfoJson, Names};
use vramscope_trace::Trace;
use vramscope_trace::formats::Recording;

use crate::error::{Result, SessionError};

/// An open recording, with what is derived from it. Frames and histories are computed on first use, and kept for later requests.
#[derive(Debug)]
pub struct Session {
    name: String,
    recording: Recording,
    advice: Advice,
    frames: OnceLock<Arc<Frames>>,
    /// The history of each device; empty if none is kept.
    histories: Vec<OnceLock<Arc<History>>>,
}

impl Session {
    /// Opens a recording. `name` is the file's name in answers; `advice` has the asking program's names for options.
    #[must_use]
    pub fn new(name: String, recording: Recording, advice: Advice) -> Self {
        let histories = recording.trace.devices.iter().map(|_| OnceLock::new()).collect();
        Self { name, recording, advice, frames: OnceLock::new(), histories }
    }

    /// Opens a recording for one request: it keeps no history, so that one device is in memory at a time.
    #[must_use]
    pub fn once(name: String, recording: Recording, advice: Advice) -> Self {
        Self { histories: Vec::new(), ..Self::new(name, recording, advice) }
    }

    /// The file's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The recording.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The recording's trace.
    pub fn trace(&self) -> &Arc<Trace> {
        &self.recording.trace
    }

    /// The asking program's names for options.
    pub fn advice(&self) -> &Advice {
        &self.advice
    }

    /// The classification of the frames.
    pub fn frames(&self) -> &Arc<Frames> {
        self.frames.get_or_init(|| Arc::new(Frames::of(self.trace())))
    }

    /// Names the parts of the recording.
    pub fn names(&self) -> Names<'_> {
        Names { trace: self.trace(), frames: self.frames() }
    }

    /// The properties of the file.
    #[must_use]
    pub fn info(&self) -> InfoJson {
        InfoJson::new(&self.name, &self.recording, &RecordingFacts::of(self.trace()))
    }

    /// One side of a comparison.
    pub(crate) fn compared(&self) -> Compared<'_> {
        Compared { file: &self.name, recording: &self.recording, frames: self.frames() }
    }

    /// The index of the device at a position.
    ///
    /// # Panics
    /// If the recording has no device at this position.
    pub fn number(&self, position: usize) -> i64 {
        self.trace().devices[position].device
    }

    /// The positions of the requested device, or of all devices.
    ///
    /// # Errors
    /// The recording has no such device.
    pub fn devices(&self, asked: Option<i64>) -> Result<Vec<usize>> {
        let devices = &self.trace().devices;
        let is_asked_for = |&position: &usize| asked.is_none_or(|n| devices[position].device == n);
        let positions: Vec<usize> = (0..devices.len()).filter(is_asked_for).collect();
        match asked {
            Some(asked) if positions.is_empty() => {
                let known: Vec<String> = devices.iter().map(|d| d.device.to_string()).collect();
                let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
                Err(SessionError::Missing(format!("has no device {asked}; it has {known}")))
            }
            _ => Ok(positions),
        }
    }

    /// The positions of the requested device or of all devices, without those that were not used.
    ///
    /// # Errors
    /// The recording has no such device.
    pub fn used_devices(&self, asked: Option<i64>) -> Result<Vec<usize>> {
        let mut positions = self.devices(asked)?;
        positions.retain(|&position| self.trace().devices[position].was_used());
        Ok(positions)
    }

    /// The position of the requested device, or of the only used one. The host counts only if no device was used. In a recording without used devices, the first one.
    ///
    /// # Errors
    /// The recording has no such device, no device at all, or several used devices and none was requested.
    pub fn device(&self, asked: Option<i64>) -> Result<usize> {
        if asked.is_some() {
            return Ok(self.devices(asked)?[0]);
        }
        let mut used = self.used_devices(None)?;
        if used.len() > 1 {
            used.retain(|&position| !self.trace().devices[position].is_host());
        }
        match used[..] {
            [position] => Ok(position),
            [] if self.trace().devices.is_empty() => {
                Err(SessionError::Missing("has no device; there is nothing to report".to_owned()))
            }
            [] => Ok(0),
            ref several => {
                let devices: Vec<String> = several.iter().map(|&at| self.number(at).to_string()).collect();
                let (devices, device) = (devices.join(", "), self.advice.device);
                Err(SessionError::Missing(format!("has the devices {devices}; name one with {device}")))
            }
        }
    }

    /// The position among the used devices of the requested device, or of the only used one. Questions of the page name a device so.
    ///
    /// # Errors
    /// Those of [`device`](Self::device), and the device was not used.
    pub fn used_position(&self, asked: Option<i64>) -> Result<usize> {
        let device = self.device(asked)?;
        let position = self.used_devices(None)?.into_iter().position(|used| used == device);
        position.ok_or_else(|| {
            SessionError::Missing(format!("recorded nothing on device {}", self.number(device)))
        })
    }

    /// Checks that one of the devices has an event with this index.
    ///
    /// # Errors
    /// None has.
    pub fn check_event(&self, positions: &[usize], event: Option<usize>) -> Result<()> {
        let devices = positions.iter().map(|&position| &self.trace().devices[position]);
        let longest = devices.map(|device| device.events.len()).max().unwrap_or(0);
        match event.filter(|&event| event >= longest) {
            Some(event) => Err(SessionError::Missing(format!(
                "has no event {event}; its events are numbered from 0 and there are {longest}"
            ))),
            None => Ok(()),
        }
    }

    /// Checks that one of the devices has the event of a moment. Every recording has an end.
    ///
    /// # Errors
    /// None has.
    pub fn check_moment(&self, positions: &[usize], when: Option<When>) -> Result<()> {
        match when {
            Some(When::After(event)) => self.check_event(positions, Some(event)),
            Some(When::End) | None => Ok(()),
        }
    }

    /// The history of the device at a position.
    ///
    /// # Errors
    /// The request was cancelled.
    ///
    /// # Panics
    /// If the recording has no device at this position.
    pub fn history(&self, position: usize, cancel: &Cancel) -> Result<Arc<History>> {
        let place = self.histories.get(position);
        if let Some(history) = place.and_then(OnceLock::get) {
            return Ok(Arc::clone(history));
        }
        let history = History::replayed_unless(self.trace(), position, cancel);
        let history = Arc::new(history.ok_or(SessionError::Cancelled)?);
        Ok(match place {
            Some(place) => Arc::clone(place.get_or_init(|| history)),
            None => history,
        })
    }
}
