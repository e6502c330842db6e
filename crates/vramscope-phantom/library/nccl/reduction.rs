//! Reductions of the few numbers that programs agree on, such as a token count or a stop flag.

use std::ffi::c_int;

/// `ncclRedOp_t`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Sum,
    Product,
    Max,
    Min,
    Average,
}

impl Operation {
    /// The operation with a number. `None` for operations that programs define themselves.
    pub(super) fn of(number: c_int) -> Option<Self> {
        [Self::Sum, Self::Product, Self::Max, Self::Min, Self::Average]
            .get(usize::try_from(number).ok()?)
            .copied()
    }
}

/// Bytes per element of a `ncclDataType_t`.
pub(super) fn size_of_type(kind: c_int) -> Option<u64> {
    Some(match kind {
        // 8-bit integers and 8-bit floating-point numbers.
        0 | 1 | 10 | 11 => 1,
        // Half precision, in both formats.
        6 | 9 => 2,
        2 | 3 | 7 => 4,
        4 | 5 | 8 => 8,
        _ => return None,
    })
}

/// Reduces vectors of numbers, one per rank. `None` for types that the phantom does not compute.
pub(super) fn reduce(kind: c_int, operation: Operation, all: &[Vec<u8>]) -> Option<Vec<u8>> {
    macro_rules! integers {
        ($type:ty) => {
            fold::<{ size_of::<$type>() }>(
                all,
                |a, b| {
                    let (a, b) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
                    match operation {
                        Operation::Sum | Operation::Average => a.wrapping_add(b),
                        Operation::Product => a.wrapping_mul(b),
                        Operation::Max => a.max(b),
                        Operation::Min => a.min(b),
                    }
                    .to_le_bytes()
                },
                |sum| match operation {
                    Operation::Average => {
                        (<$type>::from_le_bytes(sum).checked_div(all.len() as $type).unwrap_or(0))
                            .to_le_bytes()
                    }
                    _ => sum,
                },
            )
        };
    }
    macro_rules! floats {
        ($type:ty) => {
            fold::<{ size_of::<$type>() }>(
                all,
                |a, b| {
                    let (a, b) = (<$type>::from_le_bytes(a), <$type>::from_le_bytes(b));
                    match operation {
                        Operation::Sum | Operation::Average => a + b,
                        Operation::Product => a * b,
                        Operation::Max => a.max(b),
                        Operation::Min => a.min(b),
                    }
                    .to_le_bytes()
                },
                |sum| match operation {
                    Operation::Average => (<$type>::from_le_bytes(sum) / all.len() as $type).to_le_bytes(),
                    _ => sum,
                },
            )
        };
    }
    match kind {
        0 => integers!(i8),
        1 => integers!(u8),
        2 => integers!(i32),
        3 => integers!(u32),
        4 => integers!(i64),
        5 => integers!(u64),
        7 => floats!(f32),
        8 => floats!(f64),
        _ => None,
    }
}

/// Combines vectors element by element, then finishes each element.
fn fold<const SIZE: usize>(
    all: &[Vec<u8>],
    combine: impl Fn([u8; SIZE], [u8; SIZE]) -> [u8; SIZE],
    finish: impl Fn([u8; SIZE]) -> [u8; SIZE],
) -> Option<Vec<u8>> {
    let (first, rest) = all.split_first()?;
    let mut result: Vec<[u8; SIZE]> = first.as_chunks().0.to_vec();
    for vector in rest {
        for (a, &b) in result.iter_mut().zip(vector.as_chunks().0) {
            *a = combine(*a, b);
        }
    }
    Some(result.into_iter().flat_map(finish).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(values: &[i64]) -> Vec<u8> {
        values.iter().flat_map(|value| value.to_le_bytes()).collect()
    }

    #[test]
    fn numbers_of_all_ranks_are_reduced() {
        let all = [bytes(&[1, -5]), bytes(&[7, 2]), bytes(&[4, 0])];
        for (operation, expected) in [
            (Operation::Sum, [12, -3]),
            (Operation::Product, [28, 0]),
            (Operation::Max, [7, 2]),
            (Operation::Min, [1, -5]),
            (Operation::Average, [4, -1]),
        ] {
            assert_eq!(reduce(4, operation, &all), Some(bytes(&expected)), "{operation:?}");
        }
        let floats = [1.5f32, 0.25].map(|value| value.to_le_bytes().to_vec());
        assert_eq!(reduce(7, Operation::Average, &floats), Some(0.875f32.to_le_bytes().to_vec()));
        assert_eq!(reduce(6, Operation::Sum, &floats), None);
    }
}
