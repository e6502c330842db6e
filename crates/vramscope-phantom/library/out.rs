//! Places in the caller's memory that a call fills.

use crate::status::{Answer, Refusal};

/// Where the caller wants a value.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// A place that the caller handed in.
    pub(crate) fn to(place: *mut T) -> Self {
        Self(place)
    }

    /// No place: the value is not wanted.
    pub(crate) fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// Writes the value, wherever the pointer is not null.
    pub(crate) fn set(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::InvalidValue);
        }
        self.write(value);
        Ok(())
    }

    /// Writes the value where the caller wants it: a null pointer says that it does not.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            self.write(value);
        }
    }

    fn write(&self, value: T) {
        // SAFETY: the caller of a C function hands in a pointer to a value of this type, and it is not null.
        unsafe { self.0.write_unaligned(value) }
    }

    /// What is there: some calls say how much room they have.
    pub(crate) fn get(&self) -> Result<T, Refusal>
    where
        T: Copy,
    {
        // SAFETY: the caller of a C function hands in a pointer to a value of this type.
        if self.0.is_null() { Err(Refusal::InvalidValue) } else { Ok(unsafe { self.0.read_unaligned() }) }
    }
}

impl Out<u8> {
    /// Writes text and the zero that ends it, cut to the `length` bytes that the caller has.
    pub(crate) fn set_text(self, text: &str, length: usize) -> Answer {
        if self.0.is_null() || length == 0 {
            return Err(Refusal::InvalidValue);
        }
        let kept = text.len().min(length - 1);
        // SAFETY: the caller has `length` bytes there.
        unsafe {
            self.0.copy_from_nonoverlapping(text.as_ptr(), kept);
            self.0.add(kept).write(0);
        }
        Ok(())
    }

    /// Fills `bytes.len()` bytes.
    pub(crate) fn set_bytes(self, bytes: &[u8]) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::InvalidValue);
        }
        // SAFETY: the caller has a structure of that size there.
        unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// A text of the caller's that ends with a zero; `None` for a null pointer or what is not UTF-8.
pub(crate) fn text<'a>(pointer: *const std::ffi::c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller of a C function hands in a text that ends with a zero.
    unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().ok()
}
