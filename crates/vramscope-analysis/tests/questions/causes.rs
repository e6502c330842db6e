//! Causes and remedies of out-of-memory events. Each cause is planted alone and computed by hand.

use serde_json::{Value, json};
use vramscope_analysis::{Frames, OomCauseKind, Options, Remedy, Summary};
use vramscope_trace::formats;

use crate::leaks::Program;
use crate::{at_line, defaults, event, recording};

const MIB: u64 = 1 << 20;

fn oom(size: u64, device_free: u64) -> Value {
    json!({"action": "oom", "device_free": device_free, "size": size, "stream": 0, "frames": []})
}

/// A recording in which each block is in a new segment or in an existing one.
#[derive(Default)]
struct Recorded {
    events: Vec<Value>,
    next: u64,
}

impl Recorded {
    /// Adds a segment of `size` bytes and returns its address.
    fn segment(&mut self, size: u64) -> u64 {
        self.next += 1 << 32;
        self.events.push(event("segment_alloc", self.next, size));
        self.next
    }

    fn alloc(&mut self, address: u64, size: u64) {
        self.events.push(event("alloc", address, size));
    }

    fn free(&mut self, address: u64, size: u64) {
        self.events.push(event("free_requested", address, size));
        self.events.push(event("free_completed", address, size));
    }
}

/// Returns the summary of `events` on a device of `total` bytes, recorded under `conf`.
fn summary(events: Vec<Value>, conf: &str, total: Option<u64>) -> Summary {
    let settings = json!({"PYTORCH_CUDA_ALLOC_CONF": conf});
    let mut snapshot = json!({"segments": [], "device_traces": [events], "allocator_settings": settings});
    if let Some(total) = total {
        snapshot["device_total_bytes"] = json!([total]);
    }
    let trace = formats::read(snapshot.to_string().as_bytes()).unwrap().trace;
    Summary::of(&trace, 0, &Frames::of(&trace), &Options::default())
}

#[test]
fn a_recorded_setting_that_costs_too_much_is_named_and_removed() {
    let mut r = Recorded::default();
    for _ in 0..19 {
        let address = r.segment(48 * MIB);
        r.alloc(address, 33 * MIB);
    }
    r.events.push(oom(96 * MIB, 48 * MIB));
    let s = summary(r.events, "roundup_power2_divisions:2", None);
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!((main.kind, main.bytes / MIB), (OomCauseKind::Rounding, 19 * 15));
    let best = s.best_setting.unwrap();
    assert_eq!(best.change.remove, ["roundup_power2_divisions:2"]);
    assert!(best.change.add.is_empty() && best.fits);
    // 34 MiB each, and the request.
    assert_eq!(best.peak_reserved / MIB, 19 * 34 + 96);
}

#[test]
fn collected_garbage_is_weighed_by_a_replay_without_it() {
    let mut r = Recorded::default();
    let kept = r.segment(640 * MIB);
    r.alloc(kept, 640 * MIB);
    let cached = r.segment(300 * MIB);
    r.alloc(cached, 300 * MIB);
    r.free(cached, 300 * MIB);
    r.events.push(event("segment_free", cached, 300 * MIB));
    let small = r.segment(2 * MIB);
    r.alloc(small, 1024);
    let large = r.segment(20 * MIB);
    r.alloc(large, 4 * MIB);
    // The allocator can use 954 of 1,024 MiB.
    r.events.push(oom(296 * MIB, 292 * MIB));
    let conf = "garbage_collection_threshold:0.5,per_process_memory_fraction:0.93";
    let s = summary(r.events, conf, Some(1024 * MIB));
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!((main.kind, main.bytes / MIB), (OomCauseKind::Collection, 16));
    let best = s.best_setting.unwrap();
    assert_eq!(
        (best.change.remove.as_slice(), best.change.add.len()),
        (&["garbage_collection_threshold:0.5".to_owned()][..], 0)
    );
    assert_eq!(best.peak_reserved / MIB, 942);
}

#[test]
fn a_limit_of_the_program_is_removed() {
    let mut r = Recorded::default();
    let address = r.segment(400 * MIB);
    r.alloc(address, 400 * MIB);
    r.events.push(oom(150 * MIB, 560 * MIB));
    let s = summary(r.events, "", Some(1024 * MIB));
    assert_eq!(s.ooms[0].causes.main().unwrap().kind, OomCauseKind::Limit);
    let Some(Remedy::WithoutLimit(peak)) = s.remedy else { panic!("{:?}", s.remedy) };
    assert_eq!(peak / MIB, 550);
}

#[test]
fn a_larger_device_is_named_where_size_is_the_cause() {
    let mut r = Recorded::default();
    let address = r.segment(700 * MIB);
    r.alloc(address, 700 * MIB);
    r.events.push(oom(400 * MIB, 260 * MIB));
    let s = summary(r.events, "", Some(1024 * MIB));
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!((main.kind, main.bytes / MIB), (OomCauseKind::Size, 140));
    let Some(Remedy::LargerDevice(nearest, peak)) = s.remedy else { panic!("{:?}", s.remedy) };
    assert_eq!((nearest.needed / MIB, peak / MIB), (1164, 1100));
}

#[test]
fn the_cache_of_an_idle_stream_is_a_cause_of_its_own() {
    let kind = |is_idle: bool| {
        let mut r = Recorded::default();
        let mut holes = Vec::new();
        for _ in 0..6 {
            let address = r.segment(64 * MIB);
            r.alloc(address, 58 * MIB);
            r.alloc(address + 58 * MIB, 6 * MIB);
            holes.push(address);
        }
        for &hole in &holes {
            r.free(hole, 58 * MIB);
        }
        let side = r.events.len();
        r.events.iter_mut().for_each(|e| e["stream"] = json!(7));
        for _ in 0..30 {
            let address = r.segment(2 * MIB);
            r.alloc(address, 1024);
        }
        if !is_idle {
            let last = r.events.split_off(side);
            r.events.splice(0..0, last);
        }
        r.events.push(oom(70 * MIB, 10 * MIB));
        let s = summary(r.events, "", None);
        let main = *s.ooms[0].causes.main().unwrap();
        assert_eq!(main.bytes / MIB, 6 * 58);
        main.kind
    };
    assert_eq!(kind(true), OomCauseKind::IdleStream);
    assert_eq!(kind(false), OomCauseKind::OtherStream);
}

#[test]
fn a_block_that_became_free_within_the_failed_request_is_a_cause() {
    // The segment contains another block, so it is not released, and the allocator does not look for a block again.
    let mut r = Recorded::default();
    let address = r.segment(64 * MIB);
    r.alloc(address, 58 * MIB);
    r.alloc(address + 58 * MIB, 6 * MIB);
    r.events.push(event("free_requested", address, 58 * MIB));
    let other = r.segment(20 * MIB);
    r.alloc(other, 20 * MIB);
    r.events.push(event("free_completed", address, 58 * MIB));
    r.events.push(oom(50 * MIB, 10 * MIB));
    let s = summary(r.events, "", None);
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!((main.kind, main.bytes / MIB), (OomCauseKind::Pending, 58));
}

#[test]
fn a_block_that_waits_for_a_stream_is_a_cause_with_a_remedy() {
    let mut r = Recorded::default();
    let shared = r.segment(300 * MIB);
    r.alloc(shared, 300 * MIB);
    let kept = r.segment(400 * MIB);
    r.alloc(kept, 400 * MIB);
    r.events.push(event("free_requested", shared, 300 * MIB));
    r.events.push(oom(300 * MIB, 260 * MIB));
    let s = summary(r.events, "", None);
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!(
        (main.kind, main.bytes / MIB, s.ooms[0].causes.lacking / MIB),
        (OomCauseKind::Pending, 300, 40)
    );
    let Some(Remedy::WithoutWaiting(peak)) = s.remedy else { panic!("{:?}", s.remedy) };
    assert_eq!(peak / MIB, 700);
}

#[test]
fn blocks_that_fit_and_did_not_serve_are_of_a_pool_that_was_not_recorded() {
    // Their segments are gone at the end, so the snapshot does not show that a private pool owns them.
    let mut r = Recorded::default();
    for _ in 0..3 {
        let address = r.segment(64 * MIB);
        r.alloc(address, 64 * MIB);
        r.free(address, 64 * MIB);
        r.alloc(address + 58 * MIB, 6 * MIB);
    }
    r.events.push(oom(50 * MIB, 10 * MIB));
    let s = summary(r.events, "", Some(212 * MIB));
    let main = s.ooms[0].causes.main().unwrap();
    assert_eq!((main.kind, main.bytes / MIB), (OomCauseKind::OtherPool, 3 * 58));
    let Some(Remedy::WithoutPools(peak)) = s.remedy else { panic!("{:?}", s.remedy) };
    // All blocks of 6 MiB then share one segment, which serves the request.
    assert_eq!(peak / MIB, 2 * 64);
    // The replay does not know the pool and does not fail, so no setting is known to help.
    assert_eq!(s.best_setting, None);
}

#[test]
fn a_leak_comes_before_settings() {
    let mut p = Program::default();
    for _ in 0..40 {
        p.step();
        p.alloc(99, 560 << 10);
    }
    let mut events = p.events;
    let mut failed = oom(2 * MIB, 0);
    failed["frames"] = at_line("alloc", 0, 0, 99)["frames"].clone();
    events.push(failed);
    let trace = recording(events, Vec::new(), defaults());
    let s = Summary::of(&trace, 0, &Frames::of(&trace), &Options::default());
    let causes = &s.ooms[0].causes;
    let OomCauseKind::Leak(line) = causes.main().unwrap().kind else { panic!("{causes:?}") };
    assert_eq!((trace.frames.get(line).line, causes.main().unwrap().bytes), (99, 40 * (560 << 10)));
}

#[test]
fn a_list_that_keeps_everything_is_a_leak_where_it_ends_out_of_memory() {
    let suspects = |lines: &[u32], failed_line: u32, failed_size: u64| {
        let mut p = Program::default();
        for _ in 0..120 {
            for &line in lines {
                p.alloc(line, MIB);
            }
        }
        let mut failed = oom(failed_size, 0);
        failed["frames"] = at_line("alloc", 0, 0, failed_line)["frames"].clone();
        p.events.push(failed);
        let trace = recording(p.events, Vec::new(), defaults());
        Summary::of(&trace, 0, &Frames::of(&trace), &Options::default()).leaks.len()
    };
    assert_eq!(suspects(&[7], 7, MIB), 1);
    // Many lines that each retain memory: the setup of a model, or one forward pass.
    assert_eq!(suspects(&[7, 8, 9], 7, MIB), 0);
    assert_eq!(suspects(&[7], 8, MIB), 0);
    // The list was filled, and a different request failed.
    assert_eq!(suspects(&[7], 7, 2 * MIB), 0);
}
