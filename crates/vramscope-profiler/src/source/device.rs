//! [`DeviceSpec`]: selects a device.

use std::convert::Infallible;

use thiserror::Error;

/// Selects a device, in the forms that PyTorch accepts: a number, `cuda:0`, `cuda`.
///
/// ```
/// use vramscope_profiler::{DeviceSpec, SelectError};
///
/// assert_eq!("cuda:1".try_into(), Ok(DeviceSpec::Index(1)));
/// assert_eq!("cuda".try_into(), Ok(DeviceSpec::Current));
/// assert_eq!(DeviceSpec::from(2), DeviceSpec::Index(2));
/// assert!(DeviceSpec::try_from("cpu").is_err());
/// ```
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub enum DeviceSpec {
    /// The current device, which is the first device here.
    #[default]
    Current,
    /// The device with this id.
    Index(i32),
}

impl From<i32> for DeviceSpec {
    fn from(index: i32) -> Self {
        Self::Index(index)
    }
}

impl From<Option<i32>> for DeviceSpec {
    fn from(index: Option<i32>) -> Self {
        index.map_or(Self::Current, Self::Index)
    }
}

impl TryFrom<&str> for DeviceSpec {
    type Error = SelectError;

    fn try_from(text: &str) -> Result<Self, SelectError> {
        let wrong = || SelectError::NotCuda(text.to_owned());
        let index = match text.trim() {
            "cuda" => return Ok(Self::Current),
            text => text.strip_prefix("cuda:").unwrap_or(text),
        };
        index.parse().map(Self::Index).map_err(|_| wrong())
    }
}

/// The reason why a device was not found.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SelectError {
    /// The text does not name a CUDA device.
    #[error("`{0}` is not a CUDA device: name one as cuda:0, or by its number")]
    NotCuda(String),
    /// There are fewer devices.
    #[error(
        "device cuda:{index} is not available: {}",
        match count { 1 => "there is only cuda:0".to_owned(), n => format!("there are {n}, from cuda:0") }
    )]
    NoSuchDevice {
        /// The requested id.
        index: i32,
        /// Number of devices.
        count: usize,
    },
    /// There is no device.
    #[error("no CUDA device is available: {0}")]
    NoDevices(String),
}

impl From<Infallible> for SelectError {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl DeviceSpec {
    /// Returns the selected device's id among `count` devices.
    ///
    /// # Errors
    /// [`SelectError::NoSuchDevice`] if there is no such device.
    pub fn of(self, count: usize) -> Result<i32, SelectError> {
        let index = match self {
            Self::Current => 0,
            Self::Index(index) => index,
        };
        match usize::try_from(index) {
            Ok(i) if i < count => Ok(index),
            _ => Err(SelectError::NoSuchDevice { index, count }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_named_as_in_pytorch() {
        for (text, spec) in
            [("cuda:0", 0), ("cuda:12", 12), (" 3 ", 3)].map(|(t, i)| (t, DeviceSpec::Index(i)))
        {
            assert_eq!(DeviceSpec::try_from(text), Ok(spec));
        }
        for text in ["", "cpu", "cuda:", "cuda:x", "cuda:0x1", "mps:0", "cuda 1"] {
            assert_eq!(DeviceSpec::try_from(text), Err(SelectError::NotCuda(text.to_owned())));
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named_with_those_that_are() {
        assert_eq!(DeviceSpec::Current.of(2), Ok(0));
        assert_eq!(DeviceSpec::Index(1).of(2), Ok(1));
        for (index, count, said) in [
            (7, 2, "device cuda:7 is not available: there are 2, from cuda:0"),
            (-1, 1, "device cuda:-1 is not available: there is only cuda:0"),
        ] {
            assert_eq!(DeviceSpec::Index(index).of(count).unwrap_err().to_string(), said);
        }
    }
}
