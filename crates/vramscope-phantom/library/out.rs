//! Output parameters: places in the caller's memory that a call fills.

use crate::status::{Answer, Refusal};

/// A pointer to the caller's place for a value; may be null.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// The place behind the caller's pointer.
    pub(crate) fn to(place: *mut T) -> Self {
        Self(place)
    }

    /// No place: the value is not wanted.
    pub(crate) fn nowhere() -> Self {
        Self(std::ptr::null_mut())
    }

    /// The caller's pointer, to pass it on.
    pub(crate) fn pointer(&self) -> *mut T {
        self.0
    }

    /// Writes the value. Fails for a null pointer.
    pub(crate) fn set(&self, value: T) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::InvalidValue);
        }
        self.write(value);
        Ok(())
    }

    /// Writes the value, unless the pointer is null.
    pub(crate) fn set_if_wanted(&self, value: T) {
        if !self.0.is_null() {
            self.write(value);
        }
    }

    fn write(&self, value: T) {
        // SAFETY: the caller of a C function passes a pointer to a value of this type, and it is not null.
        unsafe { self.0.write_unaligned(value) }
    }

    /// Reads the current value, for example the size of the caller's buffer.
    pub(crate) fn get(&self) -> Result<T, Refusal>
    where
        T: Copy,
    {
        // SAFETY: the caller of a C function passes a pointer to a value of this type.
        if self.0.is_null() { Err(Refusal::InvalidValue) } else { Ok(unsafe { self.0.read_unaligned() }) }
    }
}

impl Out<u8> {
    /// Writes text and a terminating zero, truncated to the caller's `length` bytes.
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

    /// Copies all of `bytes` to the caller's place.
    pub(crate) fn set_bytes(self, bytes: &[u8]) -> Answer {
        if self.0.is_null() {
            return Err(Refusal::InvalidValue);
        }
        // SAFETY: the caller passes a structure of that size.
        unsafe { self.0.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        Ok(())
    }
}

/// The caller's zero-terminated text. `None` for a null pointer or invalid UTF-8.
pub(crate) fn text<'a>(pointer: *const std::ffi::c_char) -> Option<&'a str> {
    if pointer.is_null() {
        return None;
    }
    // SAFETY: the caller of a C function passes a zero-terminated text.
    unsafe { std::ffi::CStr::from_ptr(pointer) }.to_str().ok()
}
