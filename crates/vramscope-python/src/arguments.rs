//! Parses arguments of the package's functions. An error names the argument and the accepted values.

use std::any::type_name;

use pyo3::exceptions::{PyOverflowError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyString;
use regex::Regex;
use vramscope::analysis::{By, Growth, When};
use vramscope::session::values::{self, At};

/// The maximum length of a value in an error, in characters.
const MOST_SHOWN: usize = 40;

/// Defines functions for `from_py_with`: each parses the named argument as a whole number.
macro_rules! whole_numbers {
    ($($function:ident, $argument:literal: $kind:ty;)*) => {$(
        pub(crate) fn $function(value: &Bound<'_, PyAny>) -> PyResult<$kind> {
            whole($argument, value)
        }
    )*};
}

/// Like `whole_numbers`, for arguments that may be None.
macro_rules! whole_numbers_or_none {
    ($($function:ident, $argument:literal: $kind:ty;)*) => {$(
        pub(crate) fn $function(value: &Bound<'_, PyAny>) -> PyResult<Option<$kind>> {
            optional(value, |value| whole($argument, value))
        }
    )*};
}

/// Defines functions for `from_py_with`: each parses the argument of its name as a number of bytes, a text such as `24GiB`, or None.
macro_rules! sizes_or_none {
    ($($argument:ident)*) => {$(
        pub(crate) fn $argument(value: &Bound<'_, PyAny>) -> PyResult<Option<u64>> {
            optional(value, |value| size(stringify!($argument), value))
        }
    )*};
}

whole_numbers! {
    address, "address": u64;
    device_bytes, "capacity": u64;
    rows, "top": usize;
    size_bytes, "size": u64;
    stream, "stream": u64;
    width, "width": usize;
}

whole_numbers_or_none! {
    any_stream, "stream": u64;
    at, "at": usize;
    at_step, "at_step": u32;
    device, "device": i64;
    limit_bytes, "size": i64;
    max_expanded, "max_expanded": u64;
    other_device, "other_device": i64;
    top, "top": usize;
}

sizes_or_none! { budget capacity max_peak max_reserved overhead promised }

/// `max_growth`: a number of bytes, a text such as `64MiB` or `5%`, or None.
pub(crate) fn max_growth(value: &Bound<'_, PyAny>) -> PyResult<Option<Growth>> {
    optional(value, |value| match value.cast::<PyString>() {
        Ok(text) => values::growth(&text.to_string_lossy())
            .map_err(|error| PyValueError::new_err(format!("max_growth: {error}"))),
        Err(_) => whole("max_growth", value).map(Growth::Bytes),
    })
}

/// `at`: the index of an event, `"end"`, a range such as `10..99`, or None.
pub(crate) fn event_or_range(value: &Bound<'_, PyAny>) -> PyResult<Option<At>> {
    optional(value, |value| match value.cast::<PyString>() {
        Ok(text) => text.to_string_lossy().parse().map_err(|e| PyValueError::new_err(format!("at: {e}"))),
        Err(_) => whole("at", value).map(When::After).map(At::State),
    })
}

/// `at`: the index of an event, `"end"`, or None.
pub(crate) fn when(value: &Bound<'_, PyAny>) -> PyResult<Option<When>> {
    optional(value, |value| match value.cast::<PyString>() {
        Ok(text) => {
            values::when(&text.to_string_lossy()).map_err(|e| PyValueError::new_err(format!("at: {e}")))
        }
        Err(_) => whole("at", value).map(When::After),
    })
}

/// `by`: the name of a grouping.
pub(crate) fn by(name: Option<&str>) -> PyResult<Option<By>> {
    name.map(values::by).transpose().map_err(PyValueError::new_err)
}

/// `filter`: a regular expression.
pub(crate) fn filter(text: Option<&str>) -> PyResult<Option<Regex>> {
    text.map(values::filter).transpose().map_err(|e| PyValueError::new_err(format!("filter: {e}")))
}

fn optional<T>(
    value: &Bound<'_, PyAny>,
    given: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
) -> PyResult<Option<T>> {
    if value.is_none() { Ok(None) } else { given(value).map(Some) }
}

fn size(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    match value.cast::<PyString>() {
        Ok(text) => values::size(&text.to_string_lossy())
            .map_err(|error| PyValueError::new_err(format!("{argument}: {error}"))),
        Err(_) => whole(argument, value),
    }
}

/// Parses a whole number in the range of `T`.
fn whole<T>(argument: &str, value: &Bound<'_, PyAny>) -> PyResult<T>
where
    T: for<'a, 'py> FromPyObject<'a, 'py, Error = PyErr>,
{
    let py = value.py();
    value.extract::<T>().map_err(|error| {
        if error.is_instance_of::<PyTypeError>(py) {
            return PyTypeError::new_err(format!("{argument} is a whole number, not {}", kind(value)));
        }
        if !error.is_instance_of::<PyOverflowError>(py) {
            // The object's `__index__` raised its own error.
            return error;
        }
        let is_unsigned = type_name::<T>().starts_with('u');
        let why =
            if is_unsigned && value.lt(0).unwrap_or(false) { "at least 0, not" } else { "out of range:" };
        PyValueError::new_err(format!("{argument} is {why} {}", shown(value)))
    })
}

/// A value as text for an error.
fn shown(value: &Bound<'_, PyAny>) -> String {
    // Python refuses to format a number with more than a few thousand digits.
    let Ok(text) = value.repr() else { return "a number of too many digits".to_owned() };
    let text = text.to_string_lossy();
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into_owned(),
    }
}

/// The name of a value's type.
fn kind(value: &Bound<'_, PyAny>) -> String {
    value.get_type().name().map_or_else(|_| "that".to_owned(), |name| name.to_string_lossy().into_owned())
}
