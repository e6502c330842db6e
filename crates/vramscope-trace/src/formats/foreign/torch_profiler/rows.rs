//! The rows of a trace of `torch.profiler`, one at a time.

use std::fmt;
use std::io::{BufReader, Read};
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::writing::LANES_LEFT_OUT;
use crate::error::ReadError;
use crate::formats::LONGEST_STRING;
use crate::formats::window::Window;

/// Receives the rows of a trace.
pub(super) trait Sink {
    /// The trace's base time in nanoseconds since the Unix epoch. It may follow the rows.
    fn base(&mut self, ns: i64);
    /// The number of lanes that the writer of the trace left out.
    fn left_out(&mut self, _lanes: usize) {}
    /// A row. An error ends the reading.
    fn row(&mut self, row: Row) -> Result<(), ReadError>;
}

/// Why the reading ended before the trace did.
pub(super) enum Stopped {
    /// The stream or the sink failed.
    Error(ReadError),
    /// The text is not JSON, or no trace.
    Invalid(serde_json::Error),
}

impl Stopped {
    /// The error of reading a recording.
    pub(super) fn of_a_recording(self) -> ReadError {
        match self {
            Self::Error(error) => error,
            Self::Invalid(e) => ReadError::Json(e.to_string()),
        }
    }
}

/// Passes all rows to `sink`. Returns the number of bytes that were parsed, too.
pub(super) fn read(stream: Window<'_>, sink: &mut impl Sink) -> (Result<(), Stopped>, u64) {
    let mut text = BufReader::new(Counted { stream, bytes: 0, last: 0, since_quote: 0 });
    let mut failed = None;
    let read = {
        let mut json = serde_json::Deserializer::from_reader(&mut text);
        Whole { sink, failed: &mut failed }.deserialize(&mut json).and_then(|()| json.end())
    };
    let bytes = text.get_ref().bytes - text.buffer().len() as u64;
    let read = match (failed, read) {
        (Some(error), _) => Err(Stopped::Error(error)),
        (None, Err(e)) if e.is_io() => Err(Stopped::Error(std::io::Error::from(e).into())),
        (None, Err(e)) => Err(Stopped::Invalid(e)),
        (None, Ok(())) => Ok(()),
    };
    (read, bytes)
}

/// Counts the bytes read, and refuses strings that are too long: the parser would hold them in memory.
struct Counted<'w> {
    stream: Window<'w>,
    bytes: u64,
    /// The last byte, and the number of bytes since the last quote.
    last: u8,
    since_quote: usize,
}

impl Read for Counted<'_> {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        let n = self.stream.read(out)?;
        for &byte in &out[..n] {
            self.since_quote += 1;
            if byte == b'"' && self.last != b'\\' {
                self.since_quote = 0;
            }
            self.last = byte;
        }
        if self.since_quote > LONGEST_STRING {
            let what = format!("a string, number or space of more than {LONGEST_STRING} bytes");
            return Err(std::io::Error::other(ReadError::Damaged { offset: self.bytes, what }));
        }
        self.bytes += n as u64;
        Ok(n)
    }
}

/// An event of the trace.
#[derive(Deserialize)]
pub(super) struct Row {
    #[serde(default)]
    pub(super) ph: String,
    #[serde(default)]
    pub(super) name: String,
    #[serde(default)]
    pub(super) cat: String,
    #[serde(default)]
    pub(super) tid: Number,
    /// Microseconds since the trace's base time.
    #[serde(default)]
    pub(super) ts: f64,
    /// Microseconds.
    #[serde(default)]
    pub(super) dur: f64,
    #[serde(default)]
    pub(super) args: Option<Args>,
}

#[derive(Default, Deserialize)]
pub(super) struct Args {
    #[serde(default, rename = "Bytes")]
    pub(super) bytes: Number,
    /// Allocated bytes of the device after the event.
    #[serde(default, rename = "Total Allocated")]
    pub(super) total: Number,
    #[serde(default, rename = "Addr")]
    pub(super) address: Number,
    #[serde(default, rename = "Device Type")]
    pub(super) device_type: Number,
    #[serde(default, rename = "Device Id")]
    pub(super) memory_device: Number,
    /// The number of an operator, also at the kernels that it launched.
    #[serde(default, rename = "External id")]
    pub(super) external: Number,
    /// The number of a call of the GPU's runtime, also at the kernels that it launched.
    #[serde(default)]
    pub(super) correlation: Number,
    /// The device and the stream of a kernel.
    #[serde(default)]
    pub(super) device: Number,
    #[serde(default)]
    pub(super) stream: Number,
    /// The name of a thread.
    #[serde(default)]
    pub(super) name: Text,
}

/// An integer; `None` for any other value. Addresses above 2^63 wrap.
pub(super) type Number = Lenient<i64>;

/// A text; `None` for any other value.
pub(super) type Text = Lenient<String>;

/// A value of one type; `None` for any other value.
pub(super) struct Lenient<T>(pub(super) Option<T>);

impl<T> Default for Lenient<T> {
    fn default() -> Self {
        Self(None)
    }
}

/// A type that a scalar may have.
pub(super) trait OfScalar: Sized {
    fn of_integer(n: i64) -> Option<Self>;
    fn of_text(text: &str) -> Option<Self>;
}

impl OfScalar for i64 {
    fn of_integer(n: i64) -> Option<Self> {
        Some(n)
    }

    fn of_text(text: &str) -> Option<Self> {
        text.parse().ok()
    }
}

impl OfScalar for String {
    fn of_integer(_: i64) -> Option<Self> {
        None
    }

    fn of_text(text: &str) -> Option<Self> {
        Some(text.to_owned())
    }
}

impl<'de, T: OfScalar> Deserialize<'de> for Lenient<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Scalar<T>(PhantomData<T>);

        impl<'de, T: OfScalar> Visitor<'de> for Scalar<T> {
            type Value = Lenient<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a scalar")
            }

            fn visit_i64<E>(self, n: i64) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_integer(n)))
            }

            fn visit_u64<E>(self, n: u64) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_integer(n.cast_signed())))
            }

            fn visit_f64<E>(self, _: f64) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_bool<E>(self, _: bool) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_str<E>(self, text: &str) -> Result<Lenient<T>, E> {
                Ok(Lenient(T::of_text(text)))
            }

            fn visit_unit<E>(self) -> Result<Lenient<T>, E> {
                Ok(Lenient(None))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Lenient<T>, A::Error> {
                while list.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Lenient<T>, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Lenient(None))
            }
        }

        from.deserialize_any(Scalar(PhantomData))
    }
}

/// Parser of the whole trace.
struct Whole<'g, S> {
    sink: &'g mut S,
    /// The error of the sink.
    failed: &'g mut Option<ReadError>,
}

impl<'de, S: Sink> DeserializeSeed<'de> for Whole<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for Whole<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a trace of `torch.profiler`")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Self { sink, failed } = self;
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "traceEvents" => map.next_value_seed(Rows { sink: &mut *sink, failed: &mut *failed })?,
                "baseTimeNanoseconds" => sink.base(map.next_value::<Number>()?.0.unwrap_or(0)),
                LANES_LEFT_OUT => {
                    let lanes = map.next_value::<Number>()?.0.unwrap_or(0);
                    sink.left_out(usize::try_from(lanes).unwrap_or(0));
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }
}

/// Parser of the list of events.
struct Rows<'g, S> {
    sink: &'g mut S,
    failed: &'g mut Option<ReadError>,
}

impl<'de, S: Sink> DeserializeSeed<'de> for Rows<'_, S> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_seq(self)
    }
}

impl<'de, S: Sink> Visitor<'de> for Rows<'_, S> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(row) = list.next_element::<Row>()? {
            if let Err(error) = self.sink.row(row) {
                *self.failed = Some(error);
                return Err(serde::de::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}
