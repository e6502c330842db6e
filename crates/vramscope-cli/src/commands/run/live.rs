//! Serves the memory of recorded processes to `vramscope top`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{Builder, JoinHandle};
use std::time::Duration;

use vramscope::profiler::live::{LiveOptions, LiveServer};
use vramscope::profiler::{
    DeviceMemorySource, Layers, LiveLibrary, MemorySource, Reading, SourceError, SourceInfo, Tick, Ticker,
};
use vramscope::recorder::{RunningDevice, RunningLibrary, RunningProcesses};

/// Interval of looks for new processes and devices.
const LOOK: Duration = Duration::from_millis(500);

/// The servers of a run: one for each device of each process.
pub(in super::super) struct Servers {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl Servers {
    /// Starts the thread that serves the processes.
    pub(in super::super) fn start(running: RunningProcesses) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = Builder::new().name("vramscope-live".to_owned()).spawn(move || {
            let mut servers = BTreeMap::new();
            while stopped.recv_timeout(LOOK) == Err(RecvTimeoutError::Timeout) {
                update(&mut servers, &running);
            }
        })?;
        Ok(Self { stop, thread })
    }

    /// Ends the servers.
    pub(in super::super) fn stop(self) {
        drop(self.stop);
        // An error of `join` has no information.
        self.thread.join().ok();
    }
}

/// Starts the servers of new devices, and ends those of ended processes.
fn update(servers: &mut BTreeMap<(u32, i64), Option<LiveServer>>, running: &RunningProcesses) {
    let Some(processes) = running.list() else { return };
    let now: Vec<(u32, i64)> =
        processes.iter().flat_map(|p| p.devices.iter().map(|device| (p.process, device.device))).collect();
    servers.retain(|key, _| now.contains(key));
    for (process, device) in now {
        // Without a server, the recording goes on.
        servers.entry((process, device)).or_insert_with(|| {
            let source = Arc::new(RecordedSource::new(process, device, running.clone()));
            let options =
                LiveOptions { title: title(process), process: Some(process), ..LiveOptions::default() };
            LiveServer::start(source, options).ok()
        });
    }
}

/// The name of a process.
fn title(process: u32) -> Option<String> {
    let name = fs::read_to_string(format!("/proc/{process}/comm")).ok()?;
    Some(name.trim_end().to_owned())
}

/// The memory of a recorded process on one device.
struct RecordedSource {
    process: u32,
    device: i64,
    info: SourceInfo,
    running: RunningProcesses,
}

impl RecordedSource {
    fn new(process: u32, device: i64, running: RunningProcesses) -> Self {
        let info = SourceInfo {
            name: format!("recorded on device {device}"),
            device_id: i32::try_from(device).ok(),
        };
        Self { process, device, info, running }
    }

    /// The memory on the device, and that of libraries on the host.
    fn now(&self) -> Option<(RunningDevice, Vec<RunningLibrary>)> {
        let process = self.running.list()?.into_iter().find(|process| process.process == self.process)?;
        let device = process.devices.into_iter().find(|device| device.device == self.device)?;
        Some((device, process.host))
    }
}

impl MemorySource for RecordedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn read(&self) -> Result<Reading, SourceError> {
        let (device, _) = self.now().ok_or_else(|| SourceError::Gone(self.info.name.clone()))?;
        Ok(Reading {
            allocated: Some(device.allocated),
            reserved: Some(device.reserved),
            device_used: device.count.map(|count| count.used),
            device_total: device.count.map(|count| count.total),
            device_source: device.count.map(|_| DeviceMemorySource::Driver),
            ..Reading::default()
        })
    }

    fn is_of_this_process(&self) -> bool {
        false
    }

    fn layers(&self) -> Option<Layers> {
        let (device, host) = self.now()?;
        let library = |library: RunningLibrary| {
            let RunningLibrary { library, memory, bytes, count, .. } = library;
            LiveLibrary { library, memory: memory.to_owned(), bytes, count }
        };
        Some(Layers {
            libraries: device.libraries.into_iter().chain(host).map(library).collect(),
            rest_bytes: device.count.map(|count| count.rest),
        })
    }

    fn ticker(self: Arc<Self>) -> Box<dyn Ticker> {
        Box::new(RecordedTicker(self))
    }
}

/// Its peaks are the current values.
struct RecordedTicker(Arc<RecordedSource>);

impl Ticker for RecordedTicker {
    fn tick(&mut self) -> Result<Tick, SourceError> {
        let now = self.0.read()?;
        Ok(Tick { now, high: now, high_is_exact: false })
    }
}
