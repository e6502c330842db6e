//! Pickles of libtorch's pickler (`_memory_snapshot_pickled`): protocol 2, one batch of any length, strings and shared containers
//! memoized after they are complete, addresses cast to signed integers.

use std::collections::HashMap;

use serde_json::{Value, json};
use vramscope_trace::formats::Format;

use crate::{everything, read, read_json};

/// Writes JSON-like data in this format. Equal frame dictionaries and equal lists count as one object.
#[derive(Default)]
struct Pickler {
    out: Vec<u8>,
    strings: HashMap<String, u32>,
    shared: HashMap<String, u32>,
    memo: u32,
}

impl Pickler {
    fn pickle(snapshot: &Value) -> Vec<u8> {
        let mut p = Self::default();
        p.out.extend([0x80, 2]);
        p.value(snapshot, "");
        p.out.push(b'.');
        p.out
    }

    fn put(&mut self) -> u32 {
        match u8::try_from(self.memo) {
            Ok(i) => self.out.extend([b'q', i]),
            Err(_) => {
                self.out.push(b'r');
                self.out.extend(self.memo.to_le_bytes());
            }
        }
        self.memo += 1;
        self.memo - 1
    }

    fn get(&mut self, i: u32) {
        match u8::try_from(i) {
            Ok(i) => self.out.extend([b'h', i]),
            Err(_) => {
                self.out.push(b'j');
                self.out.extend(i.to_le_bytes());
            }
        }
    }

    fn string(&mut self, s: &str) {
        if let Some(&i) = self.strings.get(s) {
            return self.get(i);
        }
        self.out.push(b'X');
        self.out.extend((s.len() as u32).to_le_bytes());
        self.out.extend(s.as_bytes());
        let i = self.put();
        self.strings.insert(s.to_owned(), i);
    }

    fn value(&mut self, v: &Value, key: &str) {
        let is_frame = v.get("filename").is_some();
        let text = v.to_string();
        if (is_frame || key == "frames")
            && let Some(&i) = self.shared.get(&text)
        {
            return self.get(i);
        }
        match v {
            Value::Null => self.out.push(b'N'),
            Value::Bool(b) => self.out.push(if *b { 0x88 } else { 0x89 }),
            Value::Number(n) if n.is_f64() => {
                self.out.push(b'G');
                self.out.extend(n.as_f64().unwrap().to_be_bytes());
            }
            Value::Number(n) => {
                let n = n.as_i64().unwrap_or_else(|| n.as_u64().unwrap() as i64);
                match i32::try_from(n) {
                    Ok(n) => {
                        self.out.push(b'J');
                        self.out.extend(n.to_le_bytes());
                    }
                    Err(_) => {
                        self.out.extend([0x8a, 8]);
                        self.out.extend(n.to_le_bytes());
                    }
                }
            }
            Value::String(s) => self.string(s),
            Value::Array(items) if key.ends_with("pool_id") => {
                items.iter().for_each(|v| self.value(v, ""));
                self.out.push(0x86);
            }
            Value::Array(items) => {
                self.out.extend(b"](");
                items.iter().for_each(|v| self.value(v, ""));
                self.out.push(b'e');
            }
            Value::Object(items) => {
                self.out.extend(b"}(");
                for (k, v) in items {
                    self.string(k);
                    self.value(v, k);
                }
                self.out.push(b'u');
            }
        }
        if is_frame || key == "frames" {
            let i = self.put();
            self.shared.insert(text, i);
        }
    }
}

#[test]
fn libtorchs_pickle_equals_the_json() {
    let recording = read(&Pickler::pickle(&everything())).unwrap();
    assert_eq!(recording.format, Format::Pickle { protocol: 2 });
    let event = recording.trace.devices[0].events.get(8);
    assert_eq!(event.address(), 0xffff_8000_0000_0000, "a signed address becomes unsigned");
    assert!(recording.trace == read_json(&everything()).trace);
}

#[test]
fn one_batch_may_hold_a_whole_trace() {
    let frames: Vec<Value> = (0..300).map(|i| json!({"name": "f", "filename": "a.py", "line": i})).collect();
    let event = |i: u64| {
        let (a, b) = ((i % 290) as usize, (i % 7) as usize);
        json!({"action": "alloc", "addr": i * 512, "size": i, "stream": 0, "frames": frames[a..a + b]})
    };
    let snapshot = json!({"segments": [], "device_traces": [(0..20_000).map(event).collect::<Vec<_>>()]});
    let recording = read(&Pickler::pickle(&snapshot)).unwrap();
    assert_eq!(recording.trace.devices[0].events.len(), 20_000);
    assert!(recording.trace == read_json(&snapshot).trace);
}
