//! Categories of larger recordings without their stacks, beside the recorded tags or, where there are none, beside the categories that the
//! same rules infer with stacks.
//!
//! `cargo nextest run -p vramscope-analysis without_stacks --no-capture` prints a row for each recording, with the wrong and the unknown
//! share of the bytes at the peak. `VRAMSCOPE_CATEGORIES` names a folder of further recordings, as `acceptance/run.py categories` writes
//! them.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::Value;
use vramscope_analysis::{AllocationCategories, History};
use vramscope_trace::formats::Reader;
use vramscope_trace::{Category, Trace};

/// The compared classes: a buffer counts as a parameter, an input as an activation.
fn class(category: Category) -> Category {
    match category {
        Category::Buffer => Category::Parameter,
        Category::Input => Category::Activation,
        Category::Workspace => Category::Temporary,
        category => category,
    }
}

/// The tags of a recording by event, if it has a file of them; an allocation without another role is temporary.
fn tags(recording: &Path) -> Option<HashMap<u64, Category>> {
    let name = recording.file_name()?.to_str()?.split_once(".pickle")?.0.to_owned();
    let text = std::fs::read(recording.with_file_name(name + ".categories.json")).ok()?;
    let tags: Value = serde_json::from_slice(&text).unwrap();
    let category = |name: &str| Category::named(name).unwrap_or(Category::Temporary);
    let pairs = tags["allocations"].as_array().unwrap().iter();
    Some(pairs.map(|pair| (pair[0].as_u64().unwrap(), category(pair[1].as_str().unwrap()))).collect())
}

fn without_stacks(trace: &Trace) -> Arc<Trace> {
    let mut trace = trace.clone();
    for device in &mut trace.devices {
        device.events = device
            .events
            .iter()
            .map(|mut event| {
                event.stack = None;
                event
            })
            .collect();
        device.blocks.iter_mut().for_each(|block| block.stack = None);
    }
    Arc::new(trace)
}

/// The bytes at the peak of a device, by the true and the inferred class.
type Confusion = BTreeMap<(Category, Category), u64>;

fn confusion(trace: &Arc<Trace>, device: usize, tags: Option<&HashMap<u64, Category>>) -> Confusion {
    let with = History::of(trace, device);
    let with_stacks = AllocationCategories::of(&with);
    let history = History::of(&without_stacks(trace), device);
    let inferred = AllocationCategories::of(&history);
    let peak = history.peaks().allocated.moment;
    let mut confusion = Confusion::new();
    for (a, original) in history.allocations.iter().zip(&with.allocations) {
        if !a.is_allocated_at(peak) {
            continue;
        }
        let truth = match (tags, a.from.event()) {
            _ if a.is_preexisting() => Category::Preexisting,
            (Some(tags), Some(event)) => tags.get(&(event as u64)).copied().unwrap_or(Category::Temporary),
            _ => with_stacks.category(original),
        };
        *confusion.entry((class(truth), class(inferred.category(a)))).or_default() += a.size;
    }
    confusion
}

/// The wrong and the unknown share of the bytes at the peak whose true category is known, and a row with the largest confusions.
fn row(name: &str, confusion: &Confusion) -> Option<([f64; 2], String)> {
    let known = || confusion.iter().filter(|((truth, _), _)| *truth != Category::Unknown);
    let all: u64 = known().map(|(_, bytes)| bytes).sum();
    if all == 0 {
        return None;
    }
    let share = |bytes: u64| bytes as f64 / all as f64;
    let sum = |is: fn(Category, Category) -> bool| {
        share(known().filter(|((truth, told), _)| is(*truth, *told)).map(|(_, bytes)| bytes).sum())
    };
    let unknown = sum(|_, told| told == Category::Unknown);
    let wrong = sum(|truth, told| told != truth && told != Category::Unknown);
    let mut rows: Vec<_> = known().filter(|((truth, told), _)| truth != told).collect();
    rows.sort_by_key(|(_, bytes)| std::cmp::Reverse(**bytes));
    let rows: Vec<String> = rows
        .into_iter()
        .filter(|(_, bytes)| share(**bytes) > 0.002)
        .map(|((truth, told), bytes)| {
            format!("{} as {} {:.1}", truth.name(), told.name(), 100.0 * share(*bytes))
        })
        .collect();
    let row = format!(
        "{name}: {:.1} % wrong, {:.1} % unknown; {}",
        100.0 * wrong,
        100.0 * unknown,
        rows.join(", ")
    );
    Some(([wrong, unknown], row))
}

/// Prints the rows of the recordings in a folder, and returns the mean shares of wrong and unknown bytes, and the largest wrong share.
fn measured(folder: &Path, is_included: fn(&str) -> bool) -> [f64; 3] {
    let mut files: Vec<PathBuf> = std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|file| {
        let name = file.file_name().unwrap().to_string_lossy();
        name.contains(".pickle") && is_included(&name)
    });
    files.sort();
    let mut shares = Vec::new();
    for file in files {
        let trace = Reader::open(&file).unwrap().read().unwrap().trace;
        let tags = tags(&file);
        for device in 0..trace.devices.len() {
            let name = format!("{} {device}", file.file_name().unwrap().to_string_lossy());
            if let Some((share, row)) = row(&name, &confusion(&trace, device, tags.as_ref())) {
                eprintln!("{row}");
                shares.push(share);
            }
        }
    }
    let mean = |part: usize| shares.iter().map(|share| share[part]).sum::<f64>() / shares.len() as f64;
    let worst = shares.iter().map(|share| share[0]).fold(0.0, f64::max);
    eprintln!(
        "{}: {} recordings, {:.1} % wrong, worst {:.1} %, {:.1} % unknown",
        folder.display(),
        shares.len(),
        100.0 * mean(0),
        100.0 * worst,
        100.0 * mean(1),
    );
    [mean(0), mean(1), worst]
}

#[test]
fn categories_without_stacks() {
    let Some(data) = vramscope_testing::recordings() else { return };
    let [wrong, unknown, worst] = measured(&data.join("categories"), |_| true);
    assert!(wrong < 0.02 && unknown < 0.02 && worst < 0.08, "{wrong} {unknown} {worst}");
    measured(&data.join("real"), |_| true);
    measured(&data.join("phantom"), |name| name.contains("torch2.11-default"));
    if let Some(folder) = std::env::var_os("VRAMSCOPE_CATEGORIES") {
        measured(Path::new(&folder), |_| true);
    }
}
