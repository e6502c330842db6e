//! Reports, character by character.

use vramscope_allocator::hooks::function::{self, CupyMemoryProfileHook, Function, Unit};
use vramscope_allocator::{Allocation, BLOCK_UNIT, MemoryPool};

use crate::{caught, panic_quietly, pool, profile};

fn printed(hook: &CupyMemoryProfileHook, unit: &str) -> String {
    let mut out = Vec::new();
    hook.print_report(unit.parse().unwrap(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// Returns `number` units of `1 << shift` bytes, rounded down to whole blocks.
fn bytes(number: f64, shift: u32) -> u64 {
    (number * (1u64 << shift) as f64) as u64 / BLOCK_UNIT * BLOCK_UNIT
}

/// A function of the example. Its first call allocates from the device, the others from the cache.
struct Trained {
    name: &'static str,
    used: u64,
    acquired: u64,
    calls: u64,
}

impl Trained {
    fn first_call(&self, pool: &MemoryPool) -> Allocation {
        Function::new(self.name).forward(|| pool.malloc(self.acquired)).unwrap()
    }

    fn other_calls(&self, pool: &MemoryPool) {
        let function = Function::new(self.name);
        let blocks = (self.used - self.acquired) / BLOCK_UNIT;
        let others = self.calls - 1;
        for i in 0..others {
            let size = (blocks / others + u64::from(i < blocks % others)) * BLOCK_UNIT;
            let call = || drop(pool.malloc(size).unwrap());
            if i % 2 == 0 { function.backward(call) } else { function.forward(call) }
        }
    }
}

/// The output in Chainer's documentation of `CupyMemoryProfileHook`.
#[test]
fn chainers_example() {
    let (hook, pool) = (profile(), pool());
    let functions = [
        Trained { name: "LinearFunction", used: bytes(5.16, 30), acquired: bytes(179.98, 20), calls: 3900 },
        Trained { name: "ReLU", used: bytes(0.99, 30), acquired: bytes(458.97, 20), calls: 2600 },
        Trained {
            name: "SoftmaxCrossEntropy",
            used: bytes(0.01, 30),
            acquired: bytes(5.08, 20),
            calls: 1300,
        },
        Trained { name: "Accuracy", used: bytes(0.7, 20), acquired: bytes(0.35, 20), calls: 700 },
    ];
    let guard = function::register(hook.clone()).unwrap();
    let held: Vec<Allocation> = functions.iter().map(|f| f.first_call(&pool)).collect();
    drop(held);
    functions.iter().for_each(|f| f.other_calls(&pool));
    drop(guard);
    assert_eq!(
        printed(&hook, "auto"),
        "       FunctionName  UsedBytes  AcquiredBytes  Occurrence
     LinearFunction     5.16GB       179.98MB        3900
               ReLU     0.99GB       458.97MB        2600
SoftmaxCrossEntropy     0.01GB         5.08MB        1300
           Accuracy     0.00GB         0.35MB         700
"
    );
    assert_eq!(hook.total_used_bytes(), functions.iter().map(|f| f.used).sum::<u64>());
    assert_eq!(hook.total_acquired_bytes(), functions.iter().map(|f| f.acquired).sum::<u64>());
    assert_eq!(hook.call_history().len(), 8500);
    assert!(hook.summary().iter().all(|row| row.live_bytes == 0 && row.freed_bytes == row.used_bytes));
}

/// Two calls that mostly use cached memory, and one call without memory.
fn two_rows() -> std::sync::Arc<CupyMemoryProfileHook> {
    let (hook, pool) = (profile(), pool());
    let (used, acquired) = (bytes(5.16, 30), bytes(179.98, 20));
    drop(pool.malloc(used - acquired).unwrap());
    let _guard = function::register(hook.clone()).unwrap();
    let linear = Function::new("LinearFunction");
    let cached = linear.forward(|| pool.malloc(used - acquired)).unwrap();
    let new = linear.backward(|| pool.malloc(acquired)).unwrap();
    function::forward("Add", || ());
    drop((cached, new));
    hook
}

#[test]
fn columns_share_a_unit_by_default() {
    let hook = two_rows();
    let expected = "  FunctionName  UsedBytes  AcquiredBytes  Occurrence
LinearFunction     5.16GB       179.98MB           2
           Add     0.00GB         0.00MB           1
";
    assert_eq!(printed(&hook, "auto"), expected);
    let mut out = Vec::new();
    hook.print_report(Unit::default(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), expected);
}

#[test]
fn each_number_has_its_unit() {
    assert_eq!(
        printed(&two_rows(), "auto_foreach"),
        "  FunctionName  UsedBytes  AcquiredBytes  Occurrence
LinearFunction     5.16GB       179.98MB           2
           Add      0.00B          0.00B           1
"
    );
}

#[test]
fn fixed_units_hold_for_both_columns() {
    let hook = two_rows();
    assert_eq!(
        printed(&hook, "B"),
        "  FunctionName       UsedBytes  AcquiredBytes  Occurrence
LinearFunction  5540507648.00B  188722688.00B           2
           Add           0.00B          0.00B           1
"
    );
    assert_eq!(
        printed(&hook, "GB"),
        "  FunctionName  UsedBytes  AcquiredBytes  Occurrence
LinearFunction     5.16GB         0.18GB           2
           Add     0.00GB         0.00GB           1
"
    );
    for (unit, used, acquired) in [
        ("KB", "5410652.00KB", "184299.50KB"),
        ("MB", "5283.84MB", "179.98MB"),
        ("TB", "0.01TB", "0.00TB"),
        ("PB", "0.00PB", "0.00PB"),
        ("EB", "0.00EB", "0.00EB"),
        ("ZB", "0.00ZB", "0.00ZB"),
    ] {
        let report = printed(&hook, unit);
        let cells: Vec<&str> = report.lines().nth(1).unwrap().split_whitespace().collect();
        assert_eq!(cells, ["LinearFunction", used, acquired, "2"]);
    }
}

#[test]
fn a_report_without_calls_is_only_a_header() {
    for unit in ["B", "KB", "MB", "GB", "TB", "PB", "EB", "ZB", "auto", "auto_foreach"] {
        assert_eq!(printed(&profile(), unit), "FunctionName  UsedBytes  AcquiredBytes  Occurrence\n");
    }
    let mut out = Vec::new();
    profile().print_full_report(Unit::Auto, &mut out).unwrap();
    let header =
        "FunctionName  Phase  UsedBytes  AcquiredBytes  PeakBytes  LiveBytes  FreedBytes  Occurrence\n";
    assert_eq!(String::from_utf8(out).unwrap(), header);
}

#[test]
fn an_unknown_unit_is_an_error() {
    for unknown in ["kb", "YB"] {
        assert_eq!(
            unknown.parse::<Unit>().unwrap_err().to_string(),
            format!("unknown unit `{unknown}`: use B, KB, MB, GB, TB, PB, EB, ZB, auto or auto_foreach")
        );
    }
}

/// A call that keeps half of its memory, a call in another phase, and a call that panics.
fn small() -> std::sync::Arc<CupyMemoryProfileHook> {
    let (hook, pool) = (profile(), pool());
    let _guard = function::register(hook.clone()).unwrap();
    let linear = Function::new("Linear");
    let kept = linear.forward(|| {
        let kept = pool.malloc(2048).unwrap();
        drop(pool.malloc(2048).unwrap());
        kept
    });
    linear.phase("eval", || {
        function::backward("ReLU", || drop(pool.malloc(1024).unwrap()));
    });
    assert!(caught(|| linear.forward(panic_quietly)));
    std::mem::forget(kept);
    hook
}

#[test]
fn the_full_report_has_phases_and_all_numbers() {
    let mut out = Vec::new();
    small().print_full_report(Unit::AutoForeach, &mut out).unwrap();
    assert_eq!(
        String::from_utf8(out).unwrap(),
        "FunctionName     Phase  UsedBytes  AcquiredBytes  PeakBytes  LiveBytes  FreedBytes  Occurrence
      Linear   forward     4.00KB         4.00KB     4.00KB     2.00KB      2.00KB           2
        ReLU  backward     1.00KB          0.00B     1.00KB      0.00B      1.00KB           1
      Linear      eval      0.00B          0.00B     1.00KB      0.00B       0.00B           1
"
    );
}

#[test]
fn json_has_everything() {
    let hook = small();
    let mut out = Vec::new();
    hook.write_json(&mut out).unwrap();
    let json: serde_json::Value = serde_json::from_slice(&out).unwrap();
    let thread = hook.call_history()[0].thread;
    let row = |function, used, acquired, peak, live, freed, occurrence| {
        serde_json::json!({
            "function": function, "used_bytes": used, "acquired_bytes": acquired, "peak_bytes": peak,
            "live_bytes": live, "freed_bytes": freed, "occurrence": occurrence,
        })
    };
    let in_phase = |phase: &str, mut row: serde_json::Value| {
        row["phase"] = phase.into();
        row
    };
    let call = |function, phase, depth, used, acquired, peak, live, freed, ended| {
        serde_json::json!({
            "function": function, "phase": phase, "thread": thread, "depth": depth, "used_bytes": used,
            "acquired_bytes": acquired, "peak_bytes": peak, "live_bytes": live, "freed_bytes": freed,
            "ended": ended,
        })
    };
    assert_eq!(
        json,
        serde_json::json!({
            "total_used_bytes": 5120,
            "total_acquired_bytes": 4096,
            "summary": [row("Linear", 4096, 4096, 4096, 2048, 2048, 3), row("ReLU", 1024, 0, 1024, 0, 1024, 1)],
            "summary_by_phase": [
                in_phase("forward", row("Linear", 4096, 4096, 4096, 2048, 2048, 2)),
                in_phase("backward", row("ReLU", 1024, 0, 1024, 0, 1024, 1)),
                in_phase("eval", row("Linear", 0, 0, 1024, 0, 0, 1)),
            ],
            "num_forgotten": 0,
            "call_history": [
                call("Linear", "forward", 0, 4096, 4096, 4096, 2048, 2048, "returned"),
                call("ReLU", "backward", 1, 1024, 0, 1024, 0, 1024, "returned"),
                call("Linear", "eval", 0, 1024, 0, 1024, 0, 1024, "returned"),
                call("Linear", "forward", 0, 0, 0, 0, 0, 0, "panicked"),
            ],
        })
    );
}

#[test]
fn a_file_that_fails_is_an_error() {
    struct Full;
    impl std::io::Write for Full {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let hook = small();
    let kinds = [
        hook.print_report(Unit::Auto, &mut Full),
        hook.print_full_report(Unit::Auto, &mut Full),
        hook.write_json(&mut Full),
    ]
    .map(|result| result.unwrap_err().kind());
    assert_eq!(kinds, [std::io::ErrorKind::StorageFull; 3]);
}
