//! Damaged logs: every event outside of the damaged chunks is read, and damage is named.
//!
//! `VRAMSCOPE_TIMES=63 cargo nextest run -p vramscope-trace damaged_logs --no-capture` reads 10,000 logs and prints the shares.

use std::ops::Range;

use vramscope_testing::times;
use vramscope_trace::Action;
use vramscope_trace::formats::log::{LogEvent, LogFrame, LogWriter};

use crate::read;

const CHUNKS: u64 = 40;
const EVENTS: u64 = 250;
/// Damaged logs of each kind.
const LOGS: u32 = 20;

/// A log whose chunks define the stacks of their events. Returns the range of each chunk in the file, too.
fn log() -> (Vec<u8>, Vec<Range<usize>>) {
    let mut log = LogWriter::create_run(Vec::new(), 0x0123_4567_89ab_cdef).unwrap();
    let mut ends = vec![20, log.get_ref().len()];
    for chunk in 0..CHUNKS {
        let name = format!("function_{chunk}");
        let site = log.site(LogFrame { name: &name, filename: "train.py", line: chunk as u32 });
        let stack = log.stack(&[site]);
        for event in 0..EVENTS {
            log.event(&LogEvent {
                device: 0,
                action: if event % 2 == 0 { Action::Alloc } else { Action::FreeRequested },
                unknown_action: None,
                address_or_free: 0x7f00_0000_0000 + 512 * (chunk * EVENTS + event / 2),
                size: 512,
                block_size: 512,
                time_us: (chunk * 1000 + event) as i64,
                stack: Some(stack),
                stream: 0,
                pool: None,
                user_metadata: None,
                kind: vramscope_trace::SegmentKind::Unknown,
            });
        }
        log.flush().unwrap();
        ends.push(log.get_ref().len());
    }
    (log.finish().unwrap(), ends.windows(2).map(|ends| ends[0]..ends[1]).collect())
}

/// A reproducible sequence of numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Changes a log, and returns the range of bytes that are damaged or missing.
type Harm = fn(&mut Vec<u8>, &mut Numbers) -> Range<usize>;

const KINDS: [(&str, Harm); 8] = [
    ("a flipped bit", |log, numbers| {
        let at = numbers.below(log.len());
        log[at] ^= 1 << numbers.below(8);
        at..at + 1
    }),
    ("a flipped bit in the header", |log, numbers| {
        let (at, bit) = (numbers.below(20), numbers.below(8));
        // Version 7 is that of a later release.
        let bit = if (at, bit) == (8, 1) { 2 } else { bit };
        log[at] ^= 1 << bit;
        at..at + 1
    }),
    ("a page of zeros", |log, numbers| {
        let page = page(log, numbers);
        log[page.clone()].fill(0);
        page
    }),
    ("zeros at the end", |log, numbers| {
        let from = log.len() - numbers.below(log.len() / 2);
        log[from..].fill(0);
        from..log.len()
    }),
    ("cut anywhere", |log, numbers| {
        let (at, whole) = (20 + numbers.below(log.len() - 20), log.len());
        log.truncate(at);
        at..whole
    }),
    // Noise in place of the first bytes may look like another format.
    ("512 bytes of noise", |log, numbers| {
        let from = 1 + numbers.below(log.len() - 513);
        log[from..from + 512].iter_mut().for_each(|byte| *byte = numbers.below(256) as u8);
        from..from + 512
    }),
    ("a page that is missing", |log, numbers| {
        let page = page(log, numbers);
        log.drain(page.clone());
        page
    }),
    ("a page of another place", |log, numbers| {
        let (from, to) = (page(log, numbers), page(log, numbers));
        let to = if to.start == 0 { 4096..8192 } else { to };
        let bytes = log[from.start..from.start + to.len().min(from.len())].to_vec();
        log[to.start..to.start + bytes.len()].copy_from_slice(&bytes);
        to
    }),
];

fn page(log: &[u8], numbers: &mut Numbers) -> Range<usize> {
    let start = numbers.below(log.len().div_ceil(4096)) * 4096;
    start..log.len().min(start + 4096)
}

#[test]
fn damaged_logs_lose_the_events_of_damaged_chunks_only() {
    let (whole, chunks) = log();
    let mut numbers = Numbers(7);
    let mut lines = Vec::new();
    for (kind, harm) in KINDS {
        let (mut recovered, mut outside, logs) = (0, 0, times(LOGS));
        for _ in 0..logs {
            let mut damaged = whole.clone();
            let harmed = harm(&mut damaged, &mut numbers);
            let is_harmed = |chunk: &Range<usize>| harmed.start < chunk.end && chunk.start < harmed.end;
            // The first chunk has names only.
            let whole_chunks = chunks[1..].iter().filter(|chunk| !is_harmed(chunk)).count() as u64;
            let read = read(&damaged);
            let recording = read.unwrap_or_else(|error| panic!("{kind} at {harmed:?}: {error}"));
            let events = recording.trace.devices.first().map_or(0, |device| device.events.len() as u64);
            assert!(
                events >= whole_chunks * EVENTS,
                "{kind} at {harmed:?}: {events} events, {} of them outside",
                whole_chunks * EVENTS
            );
            let notices = &recording.notices;
            let is_named = notices.damage.places > 0
                || notices.cut_off_bytes > 0
                || notices.unclosed
                || damaged == whole;
            assert!(is_named, "{kind} at {harmed:?}: {notices:?}");
            (recovered, outside) = (recovered + events, outside + whole_chunks * EVENTS);
        }
        let all = f64::from(logs) * (CHUNKS * EVENTS) as f64;
        let percent = |events: u64| 100.0 * events as f64 / all;
        lines.push(format!(
            "{kind:<28} {logs:>5} logs, {:>6.2} % of all events read, {:>6.2} % outside of damaged chunks",
            percent(recovered),
            percent(outside)
        ));
    }
    println!("{}", lines.join("\n"));
}
