//! What a sample says, one number a quantity.

/// What can be in use, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Quantity {
    /// What callers asked for, of all active blocks.
    Requested,
    /// Blocks handed out, after rounding.
    Allocated,
    /// Allocated blocks, and freed ones that wait for another stream.
    Active,
    /// What the pool took from the device.
    Reserved,
    /// Reserved and not active; not allocated, where active bytes are not known.
    Inactive,
    /// In use on the device by anyone.
    DeviceUsed,
    /// What the process has of the device, as the driver counts it.
    ProcessUsed,
    /// In use on the device outside of the pool: by the process, or by anyone where the driver does not tell them apart.
    Hidden,
    /// What other processes have of the device.
    Others,
    /// What the process has of the host's memory.
    Cpu,
}

impl Quantity {
    /// All of them, in the order in which they are shown.
    pub const ALL: [Self; 10] = [
        Self::Requested,
        Self::Allocated,
        Self::Active,
        Self::Reserved,
        Self::Inactive,
        Self::DeviceUsed,
        Self::ProcessUsed,
        Self::Hidden,
        Self::Others,
        Self::Cpu,
    ];

    /// Its name in JSON, as `device_used`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Requested => "requested",
            Self::Allocated => "allocated",
            Self::Active => "active",
            Self::Reserved => "reserved",
            Self::Inactive => "inactive",
            Self::DeviceUsed => "device_used",
            Self::ProcessUsed => "process_used",
            Self::Hidden => "hidden",
            Self::Others => "others",
            Self::Cpu => "cpu",
        }
    }
}

/// Larger numbers are no sizes of memory, and are not known.
const MOST: u64 = 1 << 60;

/// One number for each [`Quantity`] that is known.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Values([u64; Quantity::ALL.len()]);

impl Values {
    const UNKNOWN: u64 = u64::MAX;

    /// The bytes of a quantity; `None` where they are not known.
    pub fn get(&self, quantity: Quantity) -> Option<u64> {
        Some(self.0[quantity as usize]).filter(|&bytes| bytes != Self::UNKNOWN)
    }

    /// Sets the bytes of a quantity. What no memory holds is not known.
    pub fn set(&mut self, quantity: Quantity, bytes: Option<u64>) {
        self.0[quantity as usize] = bytes.filter(|&bytes| bytes <= MOST).unwrap_or(Self::UNKNOWN);
    }

    /// The higher of each two numbers.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        self.both(other, u64::max)
    }

    /// The lower of each two numbers.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        self.both(other, u64::min)
    }

    /// Each number of `self`, or that of `other` where it is not known.
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

    /// With those that follow from others: what is reserved and not active, and what is outside of the pool.
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
    /// Nothing is known.
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
    fn what_is_not_known_stays_so() {
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
