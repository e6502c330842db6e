//! `repeat IN OUT TIMES`: writes a recording with the events of IN repeated TIMES times, to measure how cost
//! grows. Live allocations are freed between two repetitions; segments are allocated only in the first one.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use vramscope::trace::formats::{read, write_pickle};
use vramscope::trace::{Action, DeviceTrace, Event, Events};

fn main() -> anyhow::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [input, output, times] = args.as_slice() else { bail!("usage: repeat IN OUT TIMES") };
    let times: u64 = times.parse().context("TIMES is a number")?;
    let mut recording = read(File::open(input).context("IN")?)?;
    let trace = Arc::make_mut(&mut recording.trace);
    for device in &mut trace.devices {
        device.events = repeated(device, times);
    }
    write_pickle(trace, File::create(output).context("OUT")?)?;
    Ok(())
}

fn repeated(device: &DeviceTrace, times: u64) -> Events {
    let mut out = Events::default();
    for round in 0..times {
        let mut live: BTreeMap<u64, Event> = BTreeMap::new();
        for e in device.events.iter() {
            match e.action {
                Action::Alloc => {
                    live.insert(e.address(), e);
                }
                Action::FreeCompleted => {
                    live.remove(&e.address());
                }
                Action::SegmentAlloc | Action::SegmentMap if round > 0 => continue,
                _ => {}
            }
            out.push(e);
        }
        if round + 1 < times {
            for e in live.into_values() {
                out.push(Event { action: Action::FreeRequested, ..e });
                out.push(Event { action: Action::FreeCompleted, ..e });
            }
        }
    }
    out
}
