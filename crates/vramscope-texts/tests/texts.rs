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
