//! Kinds of damage, at places that follow from a number.

/// A small generator of numbers (SplitMix64), so that a case has the same damage on every machine.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`, which must not be 0.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A kind of damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Damage {
    FlippedBit,
    StrayQuote,
    Cut,
    RemovedMiddle,
    DoubledMiddle,
    Zeros,
}

impl Damage {
    pub(crate) const ALL: [Self; 6] = [
        Self::FlippedBit,
        Self::StrayQuote,
        Self::Cut,
        Self::RemovedMiddle,
        Self::DoubledMiddle,
        Self::Zeros,
    ];

    /// Returns damaged bytes, and a description of the place.
    pub(crate) fn of(self, bytes: &[u8], random: &mut Random) -> (Vec<u8>, String) {
        let length = bytes.len() as u64;
        let mut out = bytes.to_vec();
        let at = random.below(length) as usize;
        // Half of the ranges are short, the others up to a quarter of the file.
        let most = if random.below(2) == 0 { 64.min(length) } else { length / 4 };
        let end = (at + 1 + random.below(most.max(1)) as usize).min(bytes.len());
        match self {
            Self::FlippedBit => {
                let bit = random.below(8);
                out[at] ^= 1 << bit;
                (out, format!("bit {bit} of byte {at}"))
            }
            Self::StrayQuote => {
                if random.below(2) == 0 {
                    out[at] = b'"';
                } else {
                    out.insert(at, b'"');
                }
                (out, format!("a quote at {at}"))
            }
            Self::Cut => {
                out.truncate(at);
                (out, format!("cut at {at}"))
            }
            Self::RemovedMiddle => {
                out.drain(at..end);
                (out, format!("removed {at}..{end}"))
            }
            Self::DoubledMiddle => {
                out.splice(end..end, bytes[at..end].iter().copied());
                (out, format!("doubled {at}..{end}"))
            }
            Self::Zeros => {
                out[at..end].fill(0);
                (out, format!("zeros in {at}..{end}"))
            }
        }
    }
}
