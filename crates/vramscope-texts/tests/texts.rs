//! Texts with the structure of real errors, each with its numbers and its cause as judged by hand (`texts/expected.json`).

use std::fs;
use std::path::Path;

use serde_json::Value;

/// The numbers that an expected error and a read one must share.
const NUMBERS: [&str; 12] = [
    "rank",
    "device",
    "tried_bytes",
    "total_bytes",
    "free_bytes",
    "process_bytes",
    "others_bytes",
    "allocated_bytes",
    "reserved_bytes",
    "reserved_unallocated_bytes",
    "private_pools_bytes",
    "limit_bytes",
];

#[test]
fn numbers_and_causes_are_those_judged_by_hand() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts");
    let expected: Value = serde_json::from_slice(&fs::read(folder.join("expected.json")).unwrap()).unwrap();
    let mut wrong = Vec::new();
    for (name, expected) in expected.as_object().unwrap() {
        let found = vramscope_texts::read(fs::read(folder.join(name)).unwrap().as_slice()).unwrap();
        let all = expected["errors"].as_array().unwrap();
        let is_oom = expected["cause_by_hand"] != "not_oom";
        let expected_count = if is_oom { all.len().max(1) } else { 0 };
        if found.errors.len() != expected_count {
            wrong.push(format!(
                "{name}: {} errors instead of {expected_count}: {:?}",
                found.errors.len(),
                found.errors
            ));
            continue;
        }
        for (error, expected) in found.errors.iter().zip(all) {
            let read = serde_json::to_value(error).unwrap();
            for key in NUMBERS {
                if read[key] != expected[key] {
                    wrong.push(format!("{name}: {key} is {} instead of {}", read[key], expected[key]));
                }
            }
        }
        let Some(first) = found.errors.first() else { continue };
        let cause = first.cause().name();
        let ok = expected["also_ok"].as_array().is_some_and(|also| also.iter().any(|also| also == cause));
        if expected["cause_by_hand"] != cause && !ok {
            wrong.push(format!(
                "{name}: {cause} instead of {}: {}",
                expected["cause_by_hand"], expected["why"]
            ));
        }
        if expected["program"] != first.program || expected["platform"] != first.platform {
            wrong.push(format!(
                "{name}: {} {} instead of {} {}",
                first.program, first.platform, expected["program"], expected["platform"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{} wrong\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn sizes_that_no_device_has_do_not_overflow() {
    let text = "CUDA out of memory. Tried to allocate 16.00 EiB. GPU 0 has a total capacity of 16.00 EiB of which 16.00 EiB is free. \
                Process 1 has 16.00 EiB memory in use. Process 2 has 16.00 EiB memory in use. 1.00 GiB allowed; Of the allocated \
                memory 16.00 EiB is allocated by PyTorch, and 16.00 EiB is reserved by PyTorch but unallocated.";
    let found = vramscope_texts::read(text.as_bytes()).unwrap();
    assert_eq!(found.errors[0].cause().name(), "limit");
    assert!(vramscope_texts::told("text", &found).contains("Out of memory"));
}

/// A small generator, so that a run can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n.max(1)
    }
}

/// Changes texts at random: bytes, parts that are cut, doubled or swapped. 300 of them; `TEXTS=10000` for more.
#[test]
fn changed_texts_never_panic() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/texts");
    let mut names: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    let texts: Vec<Vec<u8>> =
        names.iter().map(|name| fs::read(name).unwrap()).filter(|text| text.len() < 20_000).collect();
    let mut random = Random(7);
    let all = std::env::var("TEXTS").ok().and_then(|count| count.parse().ok()).unwrap_or(300);
    for _ in 0..all {
        let mut text = texts[random.below(texts.len())].clone();
        for _ in 0..=random.below(8) {
            let at = random.below(text.len());
            match random.below(4) {
                0 if !text.is_empty() => text[at] = random.below(256) as u8,
                1 => text.truncate(at),
                2 => {
                    let part = text[at..(at + random.below(200)).min(text.len())].to_vec();
                    let to = random.below(text.len() + 1);
                    text.splice(to..to, part);
                }
                _ => text.extend_from_slice(&texts[random.below(texts.len())]),
            }
        }
        let found = vramscope_texts::read(text.as_slice()).unwrap();
        let told = vramscope_texts::told("text", &found);
        assert!(told.len() < 100_000, "{}", told.len());
    }
}
