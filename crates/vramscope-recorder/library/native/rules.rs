//! How to find the calling frame from an address, in one word.

use std::sync::atomic::{AtomicU64, Ordering};

/// A rule. The frame's address (`CFA`) is a register plus an offset, or what is stored there. The return address is 8 bytes below it.
///
/// Bit 0: the rule is valid. Bit 1: the register is `rbp`, not `rsp`. Bit 2: the caller's `rbp` is stored. Bit 3: the frame's address is
/// stored at the offset. Bits 4 to 35: the offset in bytes, signed. Bits 36 to 63: where `rbp` is stored, relative to the frame's address,
/// in units of 8 bytes, signed; if the frame's address is stored, the caller's `rbp` is where `rbp` points to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Rule(u64);

impl Rule {
    /// There is no caller, or no way to find it.
    pub(super) const END: Self = Self(0);

    pub(super) fn new(is_from_bp: bool, offset: i64, is_indirect: bool, bp_offset: Option<i64>) -> Self {
        let Ok(offset) = i32::try_from(offset) else { return Self::END };
        let bp = bp_offset.unwrap_or(0);
        if bp % 8 != 0 || !(-(1 << 30)..1 << 30).contains(&bp) {
            return Self::END;
        }
        let flags = 1
            | u64::from(is_from_bp) << 1
            | u64::from(bp_offset.is_some()) << 2
            | u64::from(is_indirect) << 3;
        Self(flags | u64::from(offset as u32) << 4 | ((bp / 8) as u64) << 36)
    }

    #[inline]
    pub(super) fn is_from_bp(self) -> bool {
        self.0 & 2 != 0
    }

    #[inline]
    pub(super) fn is_indirect(self) -> bool {
        self.0 & 8 != 0
    }

    /// The offset; `None` if there is no caller.
    #[inline]
    pub(super) fn offset(self) -> Option<i32> {
        (self.0 & 1 != 0).then_some((self.0 >> 4) as u32 as i32)
    }

    /// Where the caller's `rbp` is, relative to the frame's address.
    #[inline]
    pub(super) fn bp_offset(self) -> Option<i32> {
        (self.0 & 4 != 0).then_some((self.0 as i64 >> 36) as i32 * 8)
    }
}

/// Rules by address. Each address has one place; a later address may take it.
pub(super) struct Rules([[AtomicU64; 2]; SIZE]);

const SIZE: usize = 1 << 14;

pub(super) static RULES: Rules = Rules([const { [const { AtomicU64::new(0) }; 2] }; SIZE]);

impl Rules {
    #[inline]
    fn place(&self, address: u64) -> &[AtomicU64; 2] {
        &self.0[(address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 50) as usize % SIZE]
    }

    /// The rule of an address, if it is known.
    #[inline]
    pub(super) fn get(&self, address: u64) -> Option<Rule> {
        let [key, rule] = self.place(address);
        let (key, rule) = (key.load(Ordering::Relaxed), rule.load(Ordering::Relaxed));
        // Another thread may be writing: then the two words do not belong together.
        (key ^ rule == address).then_some(Rule(rule))
    }

    pub(super) fn add(&self, address: u64, of: Rule) {
        let [key, rule] = self.place(address);
        key.store(address ^ of.0, Ordering::Relaxed);
        rule.store(of.0, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unwind_rule_keeps_its_parts() {
        for (offset, bp) in [(8, None), (16, Some(-16)), (1 << 20, Some(-(1 << 20))), (-40, Some(64))] {
            for (from_bp, indirect) in [(false, false), (true, false), (true, true)] {
                let rule = Rule::new(from_bp, offset, indirect, bp);
                assert_eq!(rule.offset().map(i64::from), Some(offset));
                assert_eq!(rule.bp_offset().map(i64::from), bp);
                assert_eq!((rule.is_from_bp(), rule.is_indirect()), (from_bp, indirect));
            }
        }
        assert_eq!(Rule::END.offset(), None);
        assert_eq!(Rule::new(false, 1 << 40, false, None), Rule::END);
        RULES.add(0x1234, Rule::new(false, 8, false, None));
        assert_eq!(RULES.get(0x1234), Some(Rule::new(false, 8, false, None)));
        assert_eq!(RULES.get(0x1235), None);
    }
}
