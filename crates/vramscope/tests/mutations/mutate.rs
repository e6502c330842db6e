//! Structural changes of a snapshot: types, signs, sizes, order, duplicates, keys, depth, cycles.

use crate::tree::Tree;

/// One change: its kind, place and value, each modulo the number of choices.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Change {
    pub(crate) kind: u8,
    pub(crate) place: u32,
    pub(crate) with: u32,
}

/// Numbers at the limits of formats, addresses and devices.
const NUMBERS: [i128; 18] = [
    0,
    1,
    -1,
    2,
    255,
    256,
    512,
    65_535,
    4096,
    i32::MAX as i128,
    1 << 32,
    1 << 53,
    1 << 60,
    i64::MIN as i128,
    i64::MAX as i128,
    u64::MAX as i128,
    1 << 64,
    -(1 << 64),
];

/// Keys and values of snapshots, and texts that occur in none.
const TEXTS: [&str; 26] = [
    "action",
    "addr",
    "size",
    "address",
    "total_size",
    "blocks",
    "frames",
    "state",
    "name",
    "filename",
    "line",
    "stage",
    "real_size",
    "segments",
    "device_traces",
    "max_split_size",
    "device",
    "stream",
    "alloc",
    "free_completed",
    "segment_map",
    "inactive",
    "active_allocated",
    "",
    "\u{202e}\u{1b}[31m\0\u{10ffff}=1,\"'\n;</script>",
    "a/b/c/d/e/f/g/h/i/j/k/l/m/n/o/p/q/r/s/t/u/v/w/x/y/z.py",
];

/// Applies `changes` in order. The tree stays below some ten thousand values.
pub(crate) fn mutate(tree: &mut Tree, others: &[Tree], changes: &[Change]) {
    for &change in changes {
        apply(tree, others, change);
    }
}

fn apply(tree: &mut Tree, others: &[Tree], Change { kind, place, with }: Change) {
    let with = with as usize;
    let wanted: fn(&Tree) -> bool = match kind % 16 {
        0..=4 => |value| matches!(value, Tree::Int(_)),
        7..=10 => |value| matches!(value, Tree::List(_)),
        11..=13 => |value| matches!(value, Tree::Dict(_)),
        _ => |_| true,
    };
    let Some(here) = tree.pick_mut(place, wanted) else { return };
    match (kind % 16, here) {
        // A number close to the original: most results are still valid snapshots.
        (0..=4, Tree::Int(n)) => *n = near(*n, with),
        // Another value of any type.
        (5, here) => *here = odd(with),
        // A value from another tree.
        (6, here) => {
            let values = others[with % others.len()].values();
            *here = values[(1 + with / 7 % values.len()) % values.len()].clone();
        }
        // Order, duplicates and gaps of lists.
        (7..=10, Tree::List(items)) => rearrange(items, with),
        // Keys: missing, duplicate, renamed, unknown, reordered.
        (11..=13, Tree::Dict(items)) => rekey(items, with),
        // Depth.
        (14, here) => {
            for level in 0..[1, 2, 3, 100, 140][with % 5] {
                let inner = std::mem::replace(here, Tree::Nothing);
                *here = match (with + level) % 3 {
                    0 => Tree::List(vec![inner]),
                    1 => Tree::Tuple(vec![inner]),
                    _ => Tree::Dict(vec![(TEXTS[with % TEXTS.len()].to_owned(), inner)]),
                };
            }
        }
        // A reference to a surrounding container, or a tuple.
        (_, here) => {
            *here = match std::mem::replace(here, Tree::Nothing) {
                Tree::List(items) if with.is_multiple_of(2) => Tree::Tuple(items),
                _ => Tree::Up(with % 6),
            };
        }
    }
}

fn near(n: i128, with: usize) -> i128 {
    let step = [1, 7, 512, 2 << 20][with / 16 % 4];
    match with % 16 {
        0 => -n,
        1 => n * 2,
        2 => n / 2,
        3..=6 => n + step,
        7..=10 => n - step,
        11 => 0,
        12 => n + (2 << 20),
        _ => NUMBERS[with / 16 % NUMBERS.len()],
    }
    .clamp(i128::from(i64::MIN) * 4, i128::from(u64::MAX) * 4)
}

fn odd(with: usize) -> Tree {
    let rest = with / 8;
    match with % 8 {
        0 => Tree::Nothing,
        1 => Tree::Bool(rest.is_multiple_of(2)),
        2 => Tree::Int(NUMBERS[rest % NUMBERS.len()]),
        3 => Tree::Float([0.5, -2.0, 1e10, f64::NAN, f64::INFINITY][rest % 5]),
        4 => Tree::Text(TEXTS[rest % TEXTS.len()].to_owned()),
        5 => Tree::Text("x/".repeat(rest % 3000)),
        6 => Tree::List(vec![Tree::Int(1); [0, 1, 2, 5000][rest % 4]]),
        _ => Tree::Dict(Vec::new()),
    }
}

fn rearrange(items: &mut Vec<Tree>, with: usize) {
    let length = items.len();
    if length == 0 {
        return items.push(odd(with));
    }
    let (one, other) = (with / 8 % length, with / 64 % length);
    match with % 8 {
        0 => drop(items.remove(one)),
        1 => items.insert(other, items[one].clone()),
        2 => items.swap(one, other),
        3 => items.reverse(),
        4 => items.truncate(one),
        5 => items.rotate_left(one),
        6 => items.insert(other, odd(with / 8)),
        _ => {
            let copies = [2, 10, 300][with / 8 % 3];
            if items[one].count() * copies < 3000 {
                let copy = items[one].clone();
                items.splice(one..one, vec![copy; copies]);
            }
        }
    }
}

fn rekey(items: &mut Vec<(String, Tree)>, with: usize) {
    let word = || TEXTS[with / 8 % TEXTS.len()].to_owned();
    let length = items.len();
    if length == 0 {
        return items.push((word(), odd(with)));
    }
    let (one, other) = (with / 8 % length, with / 64 % length);
    match with % 8 {
        0 => drop(items.remove(one)),
        1 => items.insert(other, items[one].clone()),
        2 => items.swap(one, other),
        3 => items[one].0 = word(),
        4 => items.insert(one, (word(), odd(with / 64))),
        5 => {
            let value = items[one].1.clone();
            items[other].1 = value;
        }
        6 => items.push((items[one].0.clone(), odd(with / 64))),
        _ => {
            let copies = [2, 40, 1100][with / 64 % 3];
            for copy in 0..copies {
                items.push((format!("{}{copy}", word()), Tree::Int(copy)));
            }
        }
    }
}
