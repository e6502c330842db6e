//! Tests of the contents of a profile. The command's tests open it with the protobuf library.

use std::io::Read as _;
use std::sync::Arc;

use prost::Message as _;
use prost::encoding::{DecodeContext, decode_key, skip_field};
use vramscope_trace::Trace;

use super::DEEPEST;
use super::proto::Profile;
use crate::{ExportFormat, ExportOptions, testing};

/// The bytes of a profile, and its reported number of samples.
fn plain(trace: &Arc<Trace>, options: &ExportOptions) -> (Vec<u8>, u64) {
    let (bytes, written) = testing::export(trace, ExportFormat::Pprof, options);
    let mut plain = Vec::new();
    flate2::read::GzDecoder::new(&bytes[..]).read_to_end(&mut plain).unwrap();
    (plain, written.rows)
}

fn profile(trace: &Arc<Trace>, options: &ExportOptions) -> Profile {
    let (bytes, samples) = plain(trace, options);
    let profile = Profile::decode(&bytes[..]).unwrap();
    assert_eq!(samples as usize, profile.sample.len());
    profile
}

fn text(profile: &Profile, number: i64) -> &str {
    &profile.string_table[number as usize]
}

/// The values of the labels named `key`, one per sample, without values that pprof drops: 0 without a unit.
fn numbers(profile: &Profile, key: &str) -> Vec<i64> {
    let label = profile.sample.iter().flat_map(|s| &s.label).filter(|l| text(profile, l.key) == key);
    label.filter(|l| l.num != 0 || l.num_unit != 0).map(|l| l.num).collect()
}

fn sums(profile: &Profile) -> Vec<i64> {
    (0..4).map(|i| profile.sample.iter().map(|s| s.value[i]).sum()).collect()
}

#[test]
fn profiles_have_sums_of_the_moment_and_of_the_recording() {
    let trace = testing::two_devices();
    assert_eq!(sums(&profile(&trace, &ExportOptions::default())), [3, 3584, 3, 3584]);
    // Event 3 frees 1000 bytes; device 1 has only one event and keeps its end state.
    assert_eq!(
        sums(&profile(&trace, &ExportOptions { at: Some(3), ..ExportOptions::default() })),
        [3, 3584, 2, 2560]
    );
}

#[test]
fn every_index_of_a_profile_is_valid() {
    let p = profile(&testing::two_devices(), &ExportOptions::default());
    assert_eq!(text(&p, 0), "");
    assert_eq!(text(&p, p.default_sample_type), "inuse_space");
    assert_eq!(p.location.iter().map(|l| l.id).collect::<Vec<_>>(), [1, 2]);
    let innermost = &p.location[p.sample[0].location_id[0] as usize - 1].line[0];
    let function = &p.function[innermost.function_id as usize - 1];
    assert_eq!(text(&p, function.name), "a;b\"\\<&>\\u{1b}[31m\\u{a}=1+1, 'x' 12");
    assert_eq!((text(&p, function.filename), innermost.line), ("/home/user/train.py", 7));
    let label: Vec<(&str, &str, i64)> =
        p.sample[2].label.iter().map(|l| (text(&p, l.key), text(&p, l.str), l.num)).collect();
    assert_eq!(label, [("bytes", "", 512), ("device", "", 1), ("stream", "0x11", 0)]);
}

/// pprof refuses a profile with a second time; every other single-value field must also occur once.
#[test]
fn fields_of_one_value_are_written_once_whatever_the_number_of_devices() {
    let (bytes, _) = plain(&testing::two_devices(), &ExportOptions::default());
    let mut rest = &bytes[..];
    let mut count = [0; 15];
    while !rest.is_empty() {
        let (tag, kind) = decode_key(&mut rest).unwrap();
        count[tag as usize] += 1;
        skip_field(kind, tag, &mut rest, DecodeContext::default()).unwrap();
    }
    assert_eq!(count[9..], [1, 1, 1, 1, 2, 1]);
    let p = Profile::decode(&bytes[..]).unwrap();
    // Device 0 from 10 to 60 microseconds, device 1 at 35.
    assert_eq!((p.time_nanos, p.duration_nanos), (10_000, 50_000));
}

#[test]
fn every_device_has_a_label_that_no_reader_drops() {
    let mut trace = testing::two_devices();
    assert_eq!(numbers(&profile(&trace, &ExportOptions::default()), "device"), [0, 0, 1]);
    Arc::make_mut(&mut trace).devices[0].device = -1;
    assert_eq!(numbers(&profile(&trace, &ExportOptions::default()), "device"), [-1, -1, 1]);
}

#[test]
fn a_very_deep_stack_keeps_its_innermost_frames() {
    for (depth, told) in [(DEEPEST, DEEPEST), (DEEPEST + 1, DEEPEST + 1), (100_000, DEEPEST + 1)] {
        let p = profile(&testing::deep_stack(depth), &ExportOptions::default());
        let lines: Vec<_> =
            p.sample[0].location_id.iter().map(|&l| &p.location[l as usize - 1].line[0]).collect();
        assert_eq!(lines.len(), told);
        assert_eq!((lines[0].line, lines[DEEPEST - 1].line), (0, DEEPEST as i64 - 1));
        let outermost = text(&p, p.function[lines[told - 1].function_id as usize - 1].name);
        assert_eq!(outermost, if depth > DEEPEST { "(more frames)" } else { "f" });
    }
}
