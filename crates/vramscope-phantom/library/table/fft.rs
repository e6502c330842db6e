//! cuFFT. Workspaces are left out: they count 0 bytes.

use std::ffi::c_int;
use std::sync::atomic::{AtomicI32, Ordering};

use crate::launches;
use crate::machine::machine;
use crate::out::Out;
use crate::state::Noticed;
use crate::status::Answer;

calls! {
    Cufft;
    answer {
        cufftSetStream(handle: usize, stream: usize) = launches::set_library_stream;
        cufftCreate(plan: Out<c_int>) = new_plan;
        cufftXtMakePlanMany(plan: c_int, rank: c_int, n: usize, inembed: usize, istride: i64, idist: i64, input: c_int,
            onembed: usize, ostride: i64, odist: i64, output: c_int, batch: i64, work: Out<usize>, kind: c_int) = make_plan;
    }
    launch {
        [_ p p] cufftXtExec;
    }
    succeed {
        cufftDestroy cufftSetAutoAllocation cufftSetWorkArea
    }
}

/// Plans are small numbers, not pointers.
fn new_plan(plan: Out<c_int>) -> Answer {
    static NEXT: AtomicI32 = AtomicI32::new(1);
    plan.set(NEXT.fetch_add(1, Ordering::Relaxed))
}

#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn make_plan(
    _plan: c_int,
    _rank: c_int,
    _n: usize,
    _inembed: usize,
    _istride: i64,
    _idist: i64,
    _input: c_int,
    _onembed: usize,
    _ostride: i64,
    _odist: i64,
    _output: c_int,
    _batch: i64,
    work: Out<usize>,
    _kind: c_int,
) -> Answer {
    machine().notice(Noticed::LeftOut, "cufftXtMakePlanMany");
    work.set(0)
}
