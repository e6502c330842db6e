//! cuBLAS and cuBLASLt.

use std::ffi::{c_char, c_int};

use crate::launches;
use crate::memory::accesses;
use crate::out::Out;
use crate::status::Answer;
use crate::texts;
use crate::version;

calls! {
    Cublas;
    answer {
        cublasSetStream_v2(handle: usize, stream: usize) = launches::set_library_stream;
        cublasGetVersion_v2(handle: usize, version: Out<c_int>) = put_version;
        cublasLtMatmulAlgoGetHeuristic(handle: usize, operation: usize, a: usize, b: usize, c: usize, d: usize,
            preference: usize, wanted: c_int, results: Out<[u8; 96]>, found: Out<c_int>) = heuristic;
        cublasLtMatmul(handle: usize, operation: usize, alpha: usize, a: usize, a_layout: usize, b: usize,
            b_layout: usize, beta: usize, c: usize, c_layout: usize, d: usize, d_layout: usize, algorithm: usize,
            workspace: usize, workspace_size: usize, stream: usize) = multiply;
        cublasSetWorkspace_v2(handle: usize, workspace: u64) = set_workspace;
        cublasDestroy_v2(handle: usize) = destroy;
        cublasLtMatmulDescSetAttribute(operation: usize, which: c_int, value: *const u64, size: usize) = set_attribute;
        cublasLtMatmulDescDestroy(operation: usize) = destroy;
        cublasLtMatmulAlgoCheck(handle: usize, operation: usize, a: usize, b: usize, c: usize, d: usize,
            algorithm: usize, result: Out<[u8; 96]>) = check;
        cublasLtMatmulAlgoConfigGetAttribute(algorithm: usize, which: c_int, value: Out<u8>, size: usize,
            written: Out<usize>) = attribute;
    }
    value {
        cublasLtGetVersion() -> usize = version::cublas;
        cublasGetStatusString(status: c_int) -> *const c_char = texts::status_string;
        cublasLtGetStatusString(status: c_int) -> *const c_char = texts::status_string;
    }
    create {
        cublasCreate_v2 cublasLtMatmulDescCreate cublasLtMatmulPreferenceCreate cublasLtMatrixLayoutCreate
    }
    zero {
        cublasGetMathMode[1: i32] cublasGetPointerMode_v2[1: i32]
    }
    launch {
        [p _ p p] cublasCscal_v2 cublasCsscal_v2 cublasDscal_v2 cublasSscal_v2 cublasZdscal_v2 cublasZscal_v2;
        [_ _ p _ p] cublasGetVectorAsync;
        [p _ p _ p] cublasCcopy_v2 cublasCswap_v2 cublasDasum_v2 cublasDcopy_v2 cublasDnrm2_v2 cublasDswap_v2
            cublasDzasum_v2 cublasDznrm2_v2 cublasIcamax_v2 cublasIcamin_v2 cublasIdamax_v2 cublasIdamin_v2
            cublasIsamax_v2 cublasIsamin_v2 cublasIzamax_v2 cublasIzamin_v2 cublasSasum_v2 cublasScasum_v2
            cublasScnrm2_v2 cublasScopy_v2 cublasSnrm2_v2 cublasSswap_v2 cublasZcopy_v2 cublasZswap_v2;
        [p p p p p] cublasCrotg_v2 cublasDrotg_v2 cublasSrotg_v2 cublasZrotg_v2;
        [_ _ _ p _ p] cublasGetMatrixAsync;
        [p _ p _ p p] cublasCgetrfBatched cublasDgetrfBatched cublasSgetrfBatched cublasZgetrfBatched;
        [p _ p p _ p] cublasCaxpy_v2 cublasDaxpy_v2 cublasSaxpy_v2 cublasZaxpy_v2;
        [p p p p p p] cublasDrotmg_v2 cublasSrotmg_v2;
        [p _ _ p _ p p] cublasCgeqrfBatched cublasDgeqrfBatched cublasSgeqrfBatched cublasZgeqrfBatched;
        [p _ _ p p _ p] cublasCher_v2 cublasCsyr_v2 cublasDsyr_v2 cublasSsyr_v2 cublasZher_v2 cublasZsyr_v2;
        [p _ p _ p _ p] cublasCdotc_v2 cublasCdotu_v2 cublasDdot_v2 cublasDrotm_v2 cublasSdot_v2 cublasSrotm_v2
            cublasZdotc_v2 cublasZdotu_v2;
        [p _ _ _ _ p _ p] cublasCtrmv_v2 cublasCtrsv_v2 cublasDtrmv_v2 cublasDtrsv_v2 cublasStrmv_v2 cublasStrsv_v2
            cublasZtrmv_v2 cublasZtrsv_v2;
        [p _ p _ p _ p p] cublasCrot_v2 cublasCsrot_v2 cublasDrot_v2 cublasSrot_v2 cublasZdrot_v2 cublasZrot_v2;
        [p _ _ p p _ p _ p] cublasCgerc_v2 cublasCgeru_v2 cublasCher2_v2 cublasCsyr2_v2 cublasDger_v2 cublasDsyr2_v2
            cublasSger_v2 cublasSsyr2_v2 cublasZgerc_v2 cublasZgeru_v2 cublasZher2_v2 cublasZsyr2_v2;
        [p _ p _ _ p _ _ p] cublasDotEx;
        [p _ _ _ _ p p _ p p] cublasCherk_v2 cublasCsyrk_v2 cublasDsyrk_v2 cublasSsyrk_v2 cublasZherk_v2
            cublasZsyrk_v2;
        [p _ _ _ p _ p p _ p] cublasCgetrsBatched cublasDgetrsBatched cublasSgetrsBatched cublasZgetrsBatched;
        [p _ _ p p _ p _ p p] cublasChemv_v2 cublasCsymv_v2 cublasDsymv_v2 cublasSsymv_v2 cublasZhemv_v2
            cublasZsymv_v2;
        [p _ _ _ _ _ _ p p _ p] cublasCtrsmBatched cublasCtrsm_v2 cublasDtrsmBatched cublasDtrsm_v2 cublasStrsmBatched
            cublasStrsm_v2 cublasZtrsmBatched cublasZtrsm_v2;
        [p _ _ _ _ p _ p _ p p] cublasCgelsBatched cublasDgelsBatched cublasSgelsBatched cublasZgelsBatched;
        [p _ _ _ p p _ p _ p p] cublasCgemv_v2 cublasDgemv_v2 cublasSgemv_v2 cublasZgemv_v2;
        [p _ _ _ _ p p _ p _ p p] cublasChemm_v2 cublasCher2k_v2 cublasCsymm_v2 cublasCsyr2k_v2 cublasDsymm_v2
            cublasDsyr2k_v2 cublasSsymm_v2 cublasSsyr2k_v2 cublasZhemm_v2 cublasZher2k_v2 cublasZsymm_v2
            cublasZsyr2k_v2;
        [p _ _ _ _ _ _ p p _ p _ p] cublasCtrmm_v2 cublasDtrmm_v2 cublasStrmm_v2 cublasZtrmm_v2;
        [p _ _ _ _ _ p p _ p _ p p] cublasCgemmBatched cublasCgemm_v2 cublasDgemmBatched cublasDgemm_v2
            cublasSgemmBatched cublasSgemm_v2 cublasZgemmBatched cublasZgemm_v2;
        [p _ _ _ _ _ p p _ _ p _ _ p p] cublasCgemmStridedBatched cublasDgemmStridedBatched cublasGemmEx cublasSgemmEx
            cublasSgemmStridedBatched cublasZgemmStridedBatched;
        [p _ _ _ _ _ p p _ _ _ p _ _ _ p p] cublasGemmStridedBatchedEx;
    }
    succeed {
        cublasLtMatmulAlgoConfigSetAttribute cublasLtMatmulAlgoInit cublasLtMatmulPreferenceDestroy
        cublasLtMatmulPreferenceSetAttribute cublasLtMatrixLayoutDestroy cublasLtMatrixLayoutSetAttribute
        cublasSetMathMode cublasSetMatrixAsync cublasSetPointerMode_v2 cublasSetSmCountTarget
        cublasSetVectorAsync
    }
}

fn put_version(_handle: usize, version: Out<c_int>) -> Answer {
    version.set(version::cublas() as c_int)
}

/// Returns one algorithm without a workspace; without an algorithm, PyTorch takes another code path.
/// `cublasLtMatmulHeuristicResult_t` has 64 bytes for the algorithm, 8 for its workspace size, its status (0), a wave count,
/// and 16 reserved bytes.
#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn heuristic(
    _handle: usize,
    _operation: usize,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _preference: usize,
    wanted: c_int,
    results: Out<[u8; 96]>,
    found: Out<c_int>,
) -> Answer {
    if wanted > 0 {
        results.set([0; 96])?;
    }
    found.set(wanted.min(1))
}

/// `cublasLtMatmul` takes the stream as its last argument.
#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn multiply(
    _handle: usize,
    operation: usize,
    alpha: usize,
    a: usize,
    _a_layout: usize,
    b: usize,
    _b_layout: usize,
    beta: usize,
    c: usize,
    _c_layout: usize,
    d: usize,
    _d_layout: usize,
    _algorithm: usize,
    workspace: usize,
    _workspace_size: usize,
    stream: usize,
) -> Answer {
    accesses::record_call(stream, &[operation, alpha, a, b, beta, c, d, workspace]);
    launches::launched(stream);
    Ok(())
}

/// The workspace of a handle, which its later calls may use.
fn set_workspace(handle: usize, workspace: u64) -> Answer {
    accesses::attach(handle, 0, &[workspace]);
    Ok(())
}

/// An attribute of a matrix multiplication. Some are addresses: of the bias, of scales, of a second output.
fn set_attribute(operation: usize, which: c_int, value: *const u64, size: usize) -> Answer {
    if size == 8 && !value.is_null() {
        // SAFETY: the caller passes a value of this size.
        accesses::attach(operation, which as usize, &[unsafe { value.read_unaligned() }]);
    }
    Ok(())
}

fn destroy(handle: usize) -> Answer {
    accesses::detach(handle);
    Ok(())
}

/// Accepts every algorithm, without a workspace.
#[allow(clippy::too_many_arguments, reason = "the library's signature")]
fn check(
    _handle: usize,
    _operation: usize,
    _a: usize,
    _b: usize,
    _c: usize,
    _d: usize,
    _algorithm: usize,
    result: Out<[u8; 96]>,
) -> Answer {
    result.set([0; 96])
}

/// Every attribute of an algorithm is 0. A call with size 0 queries the size.
fn attribute(_algorithm: usize, _which: c_int, value: Out<u8>, size: usize, written: Out<usize>) -> Answer {
    written.set_if_wanted(size);
    if size == 0 { Ok(()) } else { value.set_bytes(&vec![0; size]) }
}
