//! Very long texts that many frames share: an analysis reads each of them only once.

use std::sync::Arc;

use regex::Regex;
use vramscope_analysis::{By, Frames, HolderKey, Options, Summary};
use vramscope_trace::{Event, Events, Frame, Trace};

use crate::{at_line, defaults, recording};

/// Number of frames that share a text. If each of them read a million bytes of it, these tests would take very long.
const FRAMES: u32 = 20_000;

/// Number of bytes of a very long text.
const LONG: usize = 1 << 20;

/// Allocations, each at a different line of one function.
fn sharing(filename: &str, name: &str) -> Arc<Trace> {
    let allocations = (0..FRAMES).map(|i| at_line("alloc", 512 * (u64::from(i) + 1), 512, 1)).collect();
    let mut recorded = recording(allocations, Vec::new(), defaults());
    let trace = Arc::make_mut(&mut recorded);
    let first = trace.frames.iter().next().unwrap().1;
    let [filename, name] = [filename, name].map(|text| trace.strings.intern(text).unwrap());
    let mut events = Events::default();
    for (event, line) in trace.devices[0].events.iter().zip(1..) {
        let frame = trace.frames.intern(Frame { filename, name, line, ..first }).unwrap();
        let stack = Some(trace.stacks.intern(&[frame]).unwrap());
        events.push(Event { stack, ..event });
    }
    trace.devices[0].events = events;
    recorded
}

fn ask(trace: &Arc<Trace>, options: &Options) -> Summary {
    Summary::of(trace, 0, &Frames::of(trace), options)
}

#[test]
fn each_text_is_looked_at_once() {
    let slashes = "/x".repeat(LONG / 2);
    let letters = "x".repeat(LONG);
    let line_777 = Regex::new(":777 [sx]").unwrap();
    for (filename, name) in [
        (&*format!("{slashes}.py"), "step"),
        (&*format!("/home/{letters}.py"), "step"),
        ("/usr/lib/libtorch.so", &*letters),
        ("??", &*format!("{letters}::f")),
    ] {
        let trace = sharing(filename, name);
        let lines = ask(&trace, &Options { by: Some(By::Line), ..Options::default() });
        assert_eq!(lines.holders.len(), FRAMES as usize);
        for by in [By::Module, By::File, By::Function] {
            let summary = ask(&trace, &Options { by: Some(by), ..Options::default() });
            let [holder] = &summary.holders[..] else { panic!("{by:?}: {}", summary.holders.len()) };
            assert_eq!(holder.count, u64::from(FRAMES));
        }
        assert_eq!(ask(&trace, &Options::default()).tree.nodes.len(), FRAMES as usize);
        // The filter reads the end of the path, the line number between them, and the start of the name.
        let found = ask(
            &trace,
            &Options { filter: Some(line_777.clone()), by: Some(By::Line), ..Options::default() },
        );
        let [holder] = &found.holders[..] else { panic!("{}", found.holders.len()) };
        assert!(matches!(holder.key, HolderKey::Line(id) if trace.frames.get(id).line == 777));
    }
}

/// A file can contain both user code and, if a function has a C++ name, native code. It still has one path.
#[test]
fn files_of_one_module_make_one_group() {
    let mut first = at_line("alloc", 512, 512, 1);
    first["frames"][0]["filename"] = "/home/user/pkg/__init__.py".into();
    let mut second = at_line("alloc", 1024, 1024, 2);
    second["frames"][0]["filename"] = "/home/user/pkg.py".into();
    let other = at_line("alloc", 2048, 512, 3);
    let trace = recording(vec![first, second, other], Vec::new(), defaults());
    let summary = ask(&trace, &Options { by: Some(By::Module), ..Options::default() });
    let of = |h: &vramscope_analysis::Holder| match &h.key {
        HolderKey::Module(path) => (path.clone(), h.bytes, h.count),
        key => panic!("{key:?}"),
    };
    let groups: Vec<_> = summary.holders.iter().map(of).collect();
    assert_eq!(groups, [("pkg".to_owned(), 1536, 2), ("train".to_owned(), 512, 1)]);
}
