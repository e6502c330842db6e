use super::*;
use crate::formats::read;

fn field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2, u8::try_from(bytes.len()).unwrap()];
    out.extend_from_slice(bytes);
    out
}

/// A sample: locations, values, labels.
type Sample<'a> = (&'a [u8], [u8; 2], &'a [[u8; 2]]);

/// A profile with two values, one function in two lines, and these samples.
fn profile(samples: &[Sample<'_>], types: [&str; 2]) -> Vec<u8> {
    let mut out = [field(1, &[8, 1, 16, 2]), field(1, &[8, 3, 16, 4])].concat();
    for (locations, values, labels) in samples {
        let labels = labels.iter().map(|[key, text]| field(3, &[8, *key, 16, *text]));
        let sample = [field(1, locations), field(2, values), labels.collect::<Vec<_>>().concat()].concat();
        out.extend(field(2, &sample));
    }
    for (id, line) in [(1, 12), (2, 40)] {
        out.extend(field(4, &[&[8, id][..], &field(4, &[8, 1, 16, line])].concat()));
    }
    out.extend(field(5, &[8, 1, 16, 5, 32, 6]));
    let texts = [
        "",
        types[0],
        "count",
        types[1],
        "bytes",
        "init",
        "model.py",
        "kind",
        "buffer",
        "device",
        "cuda:3",
        "TFRT_CPU_3",
    ];
    out.extend(texts.iter().flat_map(|text| field(6, text.as_bytes())));
    out
}

const TYPES: [&str; 2] = ["allocations", "space"];

#[test]
fn samples_are_blocks_of_the_end_state() {
    let buffer: &[[u8; 2]] = &[[7, 8], [9, 10]];
    let other: &[[u8; 2]] = &[[7, 8], [9, 11]];
    let bytes = profile(&[(&[2, 1], [3, 100], buffer), (&[1], [1, 64], other), (&[], [1, 7], &[])], TYPES);
    let recording = read(&bytes[..]).unwrap();
    let trace = &recording.trace;
    assert_eq!((recording.format, trace.other_allocator()), (Format::Jax, Some(OtherAllocator::Jax)));
    let sizes = |i: usize| trace.devices[i].blocks.iter().map(|b| b.size).collect::<Vec<_>>();
    let numbers: Vec<_> = trace.devices.iter().map(|d| d.device).collect();
    // The second device has the number of the first, and takes the next free one; no device is device 0.
    assert_eq!(numbers, [0, 3]);
    assert_eq!((sizes(0), sizes(1)), (vec![64, 7], vec![34, 33, 33]));
    let block = trace.devices[1].blocks[0];
    let lines: Vec<_> =
        trace.stacks.get(block.stack.unwrap()).iter().map(|&id| trace.frames.get(id).line).collect();
    assert_eq!(lines, [40, 12]);
    assert_eq!(block.user_metadata.map(|id| trace.strings.get(id)), Some("buffer"));
    assert_eq!(trace.devices[1].segments[0].total_size, 100);
}

fn long_field(number: u8, bytes: &[u8]) -> Vec<u8> {
    let mut out = vec![number << 3 | 2];
    let mut length = bytes.len();
    while length >= 0x80 {
        out.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    out.push(u8::try_from(length).unwrap());
    out.extend_from_slice(bytes);
    out
}

/// A profile whose samples have these locations, from 1 to 20. Each has `lines` times a line of its own, of one function whose name has
/// `name` bytes.
fn shared_lines(samples: &[Vec<u8>], lines: usize, name: usize) -> Vec<u8> {
    let mut out = [field(1, &[8, 1, 16, 2]), field(1, &[8, 3, 16, 4])].concat();
    for ids in samples {
        out.extend(long_field(2, &[field(1, ids), field(2, &[1, 64])].concat()));
    }
    for id in 1..=20 {
        out.extend(long_field(4, &[vec![8, id], field(4, &[8, 1, 16, id]).repeat(lines)].concat()));
    }
    out.extend(field(5, &[8, 1, 16, 5, 32, 5]));
    let name = "x".repeat(name);
    let texts = ["", "allocations", "count", "space", "bytes", &name];
    out.extend(texts.iter().flat_map(|text| long_field(6, text.as_bytes())));
    out
}

#[test]
fn samples_that_share_their_lines_cost_their_bytes() {
    let bytes = shared_lines(&vec![vec![1]; 2000], 2000, 100_000);
    let before = crate::strings::bytes_looked_up();
    let trace = read(&bytes[..]).unwrap().trace;
    assert_eq!((trace.stacks.len(), trace.devices[0].blocks.len()), (1, 2000));
    assert_eq!(trace.stacks.iter().map(|(_, frames)| frames.len()).max(), Some(DEEPEST));
    let looked_up = crate::strings::bytes_looked_up() - before;
    assert!(looked_up < 2 * bytes.len(), "{looked_up} bytes of texts in a file of {}", bytes.len());
}

#[test]
fn samples_with_too_many_different_stacks_of_shared_lines_are_refused() {
    let samples = |count: u32| -> Vec<Vec<u8>> {
        let id = |i: u32| 1 + u8::try_from(i % 20).unwrap();
        (0..count).map(|i| vec![id(i), id(i / 20), id(i / 400)]).collect()
    };
    assert_eq!(read(&shared_lines(&samples(900), 341, 9)[..]).unwrap().trace.stacks.len(), 900);
    let message = read(&shared_lines(&samples(3000), 341, 9)[..]).unwrap_err().to_string();
    assert!(message.contains("share their stacks"), "{message}");
}

#[test]
fn other_profiles_are_refused() {
    let message = read(&profile(&[], ["cpu", "space"])[..]).unwrap_err().to_string();
    assert!(message.contains("a pprof profile"), "{message}");
    let whole = profile(&[(&[1], [1, 64], &[])], TYPES);
    for length in 3..whole.len() {
        // Cut anywhere, it is read without its end or refused.
        let _ = read(&whole[..length]);
    }
    let endless = [&whole[..], &[0x12], &[0xff; 10]].concat();
    assert!(matches!(read(&endless[..]), Err(ReadError::Damaged { .. })));
}
