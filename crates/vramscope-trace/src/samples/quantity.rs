//! [`Quantity`]: the values of a sample.

use crate::named::named;

named! {
    /// A measured quantity, in bytes.
    #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
    pub enum Quantity {
        /// Requested bytes of all active blocks.
        Requested = "requested",
        /// Allocated blocks, after rounding.
        Allocated = "allocated",
        /// Allocated blocks, and freed blocks that wait for another stream.
        Active = "active",
        /// Memory that the pool took from the device.
        Reserved = "reserved",
        /// Reserved minus active bytes; reserved minus allocated bytes if active bytes are unknown.
        Inactive = "inactive",
        /// In use on the device by all processes.
        DeviceUsed = "device_used",
        /// In use on the device by the process, as the driver counts it.
        ProcessUsed = "process_used",
        /// In use on the device outside the pool: by the process, or by all processes if the driver does not separate them.
        Hidden = "hidden",
        /// In use on the device by other processes.
        Others = "others",
        /// Host memory of the process.
        Cpu = "cpu",
    }
    /// All quantities in display order.
    ALL
    /// Returns the quantity's name in JSON, such as `device_used`.
    name
}

/// Larger numbers are not plausible memory sizes and count as unknown.
const MOST: u64 = 1 << 60;

/// One optional number of bytes for each [`Quantity`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values([u64; Quantity::ALL.len()]);

impl Values {
    const UNKNOWN: u64 = u64::MAX;

    /// Returns the bytes of a quantity, or `None` if unknown.
    pub fn get(&self, quantity: Quantity) -> Option<u64> {
        Some(self.0[quantity as usize]).filter(|&bytes| bytes != Self::UNKNOWN)
    }

    /// Sets the bytes of a quantity. Implausibly large values become unknown.
    pub fn set(&mut self, quantity: Quantity, bytes: Option<u64>) {
        self.0[quantity as usize] = bytes.filter(|&bytes| bytes <= MOST).unwrap_or(Self::UNKNOWN);
    }

    /// Returns the higher value of each quantity.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.both(other, u64::max)
    }

    /// Returns the lower value of each quantity.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.both(other, u64::min)
    }

    /// Returns the values of `self`, with missing values taken from `other`.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        self.both(other, |mine, _| mine)
    }

    fn both(mut self, other: Self, of_known: impl Fn(u64, u64) -> u64) -> Self {
        for (mine, other) in self.0.iter_mut().zip(other.0) {
            *mine = match (*mine, other) {
                (Self::UNKNOWN, one) | (one, Self::UNKNOWN) => one,
                (mine, other) => of_known(mine, other),
            };
        }
        self
    }

    /// Adds the derived quantities: inactive, hidden and others.
    #[must_use]
    pub(crate) fn with_differences(mut self) -> Self {
        let get = |quantity| self.get(quantity);
        let minus = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        let reserved = get(Quantity::Reserved);
        let (process, device) = (get(Quantity::ProcessUsed), get(Quantity::DeviceUsed));
        let inactive = minus(reserved, get(Quantity::Active).or(get(Quantity::Allocated)));
        let (hidden, others) = (minus(process.or(device), reserved), minus(device, process));
        self.set(Quantity::Inactive, inactive);
        self.set(Quantity::Hidden, hidden);
        self.set(Quantity::Others, others);
        self
    }
}

impl Default for Values {
    /// All quantities unknown.
    fn default() -> Self {
        Self([Self::UNKNOWN; Quantity::ALL.len()])
    }
}

impl std::fmt::Debug for Values {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let known = Quantity::ALL.iter().filter_map(|&quantity| Some((quantity, self.get(quantity)?)));
        f.debug_map().entries(known).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(known: &[(Quantity, u64)]) -> Values {
        let mut values = Values::default();
        known.iter().for_each(|&(quantity, bytes)| values.set(quantity, Some(bytes)));
        values
    }

    #[test]
    fn differences_of_unknown_quantities_stay_unknown() {
        use Quantity::{Allocated, Cpu, Hidden, Inactive, Others, ProcessUsed, Reserved};
        let pool = values(&[(Allocated, 5), (Reserved, 8)]).with_differences();
        assert_eq!(pool, values(&[(Allocated, 5), (Reserved, 8), (Inactive, 3)]));
        assert_eq!(pool.get(Hidden), None);
        let driver = values(&[(Reserved, 8), (Quantity::DeviceUsed, 20)]).with_differences();
        assert_eq!((driver.get(Hidden), driver.get(Others)), (Some(12), None));
        let both = values(&[(Reserved, 8), (Quantity::DeviceUsed, 20), (ProcessUsed, 9)]).with_differences();
        assert_eq!((both.get(Hidden), both.get(Others)), (Some(1), Some(11)));
        assert_eq!(values(&[(Cpu, u64::MAX - 1)]), Values::default());
        let (low, high) = (values(&[(Cpu, 1), (Reserved, 9)]), values(&[(Cpu, 3)]));
        assert_eq!(low.max(high), values(&[(Cpu, 3), (Reserved, 9)]));
        assert_eq!(high.min(low), values(&[(Cpu, 1), (Reserved, 9)]));
        assert_eq!(high.or(low), values(&[(Cpu, 3), (Reserved, 9)]));
    }
}
