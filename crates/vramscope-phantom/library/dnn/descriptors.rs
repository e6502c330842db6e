//! Descriptors of tensors and filters, which PyTorch reads back.

use std::ffi::c_int;

use crate::handles::Objects;
use crate::out::Out;
use crate::status::{Answer, Refusal};

/// Maximum number of dimensions in cuDNN.
const MOST_DIMENSIONS: usize = 8;

/// A tensor or a filter: element type, format (filters only), sizes and strides.
#[derive(Debug, Clone, Default)]
pub(super) struct Tensor {
    pub(super) kind: c_int,
    pub(super) format: c_int,
    pub(super) sizes: Vec<c_int>,
    pub(super) strides: Vec<c_int>,
}

/// The contents of the caller's descriptors.
pub(super) static TENSORS: Objects<Tensor> = Objects::new();

pub(super) fn numbers(at: *const c_int, count: c_int) -> Result<Vec<c_int>, Refusal> {
    let count = usize::try_from(count).ok().filter(|&n| n <= MOST_DIMENSIONS).ok_or(Refusal::InvalidValue)?;
    if at.is_null() {
        return Err(Refusal::InvalidValue);
    }
    // SAFETY: the caller passes `count` numbers.
    Ok((0..count).map(|i| unsafe { at.add(i).read_unaligned() }).collect())
}

fn write(at: *mut c_int, numbers: &[c_int], wanted: c_int) {
    if !at.is_null() {
        for (i, &number) in numbers.iter().take(wanted.max(0) as usize).enumerate() {
            // SAFETY: the caller has room for `wanted` numbers .
            unsafe { at.add(i).write_unaligned(number) };
        }
    }
}

pub(crate) fn set_tensor(
    descriptor: usize,
    kind: c_int,
    dimensions: c_int,
    sizes: *const c_int,
    strides: *const c_int,
) -> Answer {
    let (sizes, strides) = (numbers(sizes, dimensions)?, numbers(strides, dimensions)?);
    TENSORS.put(descriptor, Tensor { kind, format: 0, sizes, strides });
    Ok(())
}

pub(crate) fn get_tensor(
    descriptor: usize,
    wanted: c_int,
    kind: Out<c_int>,
    dimensions: Out<c_int>,
    sizes: *mut c_int,
    strides: *mut c_int,
) -> Answer {
    let tensor = TENSORS.with(descriptor, |tensor| tensor.clone())?;
    kind.set_if_wanted(tensor.kind);
    dimensions.set_if_wanted(tensor.sizes.len() as c_int);
    write(sizes, &tensor.sizes, wanted);
    write(strides, &tensor.strides, wanted);
    Ok(())
}

pub(crate) fn set_filter(
    descriptor: usize,
    kind: c_int,
    format: c_int,
    dimensions: c_int,
    sizes: *const c_int,
) -> Answer {
    TENSORS.put(descriptor, Tensor { kind, format, sizes: numbers(sizes, dimensions)?, strides: Vec::new() });
    Ok(())
}

pub(crate) fn get_filter(
    descriptor: usize,
    wanted: c_int,
    kind: Out<c_int>,
    format: Out<c_int>,
    dimensions: Out<c_int>,
    sizes: *mut c_int,
) -> Answer {
    let filter = TENSORS.with(descriptor, |tensor| tensor.clone())?;
    kind.set_if_wanted(filter.kind);
    format.set_if_wanted(filter.format);
    dimensions.set_if_wanted(filter.sizes.len() as c_int);
    write(sizes, &filter.sizes, wanted);
    Ok(())
}
