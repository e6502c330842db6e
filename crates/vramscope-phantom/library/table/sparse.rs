//! cuSPARSE. Workspaces are not modelled: they count 0 bytes.

use std::ffi::c_char;

use crate::launches;
use crate::out::Out;
use crate::status::Answer;
use crate::texts;

calls! {
    Cusparse;
    answer {
        cusparseSetStream(handle: usize, stream: usize) = launches::set_library_stream;
        cusparseSpMatGetSize(matrix: usize, rows: Out<i64>, columns: Out<i64>, values: Out<i64>) = no_elements;
    }
    value {
        cusparseGetErrorString(status: i32) -> *const c_char = texts::status_string;
    }
    create {
        cusparseCreate cusparseCreateBsrsm2Info cusparseCreateBsrsv2Info cusparseCreateCoo cusparseCreateCsr
        cusparseCreateDnMat cusparseCreateDnVec cusparseCreateIdentityPermutation cusparseCreateMatDescr
        cusparseSpGEMM_createDescr cusparseSpSM_createDescr cusparseSpSV_createDescr
    }
    zero {
        cusparseXbsrsm2_zeroPivot[2: i32] cusparseXbsrsv2_zeroPivot[2: i32] cusparseXcsrgeam2Nnz[13: i32]
        cusparseCbsrsm2_bufferSize[13: i32] cusparseCbsrsv2_bufferSize[11: i32]
        cusparseCcsrgeam2_bufferSizeExt[19: usize] cusparseDbsrsm2_bufferSize[13: i32]
        cusparseDbsrsv2_bufferSize[11: i32] cusparseDcsrgeam2_bufferSizeExt[19: usize]
        cusparseSDDMM_bufferSize[10: usize] cusparseSbsrsm2_bufferSize[13: i32] cusparseSbsrsv2_bufferSize[11: i32]
        cusparseScsrgeam2_bufferSizeExt[19: usize] cusparseSpMM_bufferSize[10: usize]
        cusparseSpMV_bufferSize[9: usize] cusparseSpSM_bufferSize[10: usize] cusparseSpSV_bufferSize[9: usize]
        cusparseXcoosort_bufferSizeExt[6: usize] cusparseXcsrsort_bufferSizeExt[6: usize]
        cusparseZbsrsm2_bufferSize[13: i32] cusparseZbsrsv2_bufferSize[11: i32]
        cusparseZcsrgeam2_bufferSizeExt[19: usize]
    }
    launch {
        cusparseCbsrmm cusparseCbsrmv cusparseCbsrsm2_analysis cusparseCbsrsm2_solve cusparseCbsrsv2_analysis
        cusparseCbsrsv2_solve cusparseCcsrgeam2 cusparseDbsrmm cusparseDbsrmv cusparseDbsrsm2_analysis
        cusparseDbsrsm2_solve cusparseDbsrsv2_analysis cusparseDbsrsv2_solve cusparseDcsrgeam2 cusparseSDDMM
        cusparseSDDMM_preprocess cusparseSbsrmm cusparseSbsrmv cusparseSbsrsm2_analysis cusparseSbsrsm2_solve
        cusparseSbsrsv2_analysis cusparseSbsrsv2_solve cusparseScsrgeam2 cusparseSpGEMM_compute cusparseSpGEMM_copy
        cusparseSpGEMM_workEstimation cusparseSpMM cusparseSpMV cusparseSpSM_analysis cusparseSpSM_solve
        cusparseSpSV_analysis cusparseSpSV_solve cusparseXcoo2csr cusparseXcoosortByRow cusparseXcsrsort
        cusparseZbsrmm cusparseZbsrmv cusparseZbsrsm2_analysis cusparseZbsrsm2_solve cusparseZbsrsv2_analysis
        cusparseZbsrsv2_solve cusparseZcsrgeam2
    }
    succeed {
        cusparseCsrSetPointers cusparseCsrSetStridedBatch cusparseDestroy cusparseDestroyBsrsm2Info
        cusparseDestroyBsrsv2Info cusparseDestroyDnMat cusparseDestroyDnVec cusparseDestroyMatDescr
        cusparseDestroySpMat cusparseDnMatSetStridedBatch cusparseSetMatDiagType cusparseSetMatFillMode
        cusparseSetMatIndexBase cusparseSetMatType cusparseSetPointerMode
        cusparseSpGEMM_destroyDescr cusparseSpMatSetAttribute cusparseSpSM_destroyDescr cusparseSpSV_destroyDescr
    }
    refuse {
        cusparseLtDenseDescriptorInit cusparseLtInit cusparseLtMatDescriptorDestroy cusparseLtMatmul
        cusparseLtMatmulAlgGetAttribute cusparseLtMatmulAlgSelectionInit cusparseLtMatmulAlgSetAttribute
        cusparseLtMatmulDescSetAttribute cusparseLtMatmulDescriptorInit cusparseLtMatmulGetWorkspace
        cusparseLtMatmulPlanDestroy cusparseLtMatmulPlanInit cusparseLtMatmulSearch cusparseLtSpMMACompress2
        cusparseLtSpMMACompressedSize2 cusparseLtStructuredDescriptorInit
    }
}

/// Reports a sparse matrix without elements, because all values are zero.
fn no_elements(_matrix: usize, rows: Out<i64>, columns: Out<i64>, values: Out<i64>) -> Answer {
    rows.set_if_wanted(0);
    columns.set_if_wanted(0);
    values.set_if_wanted(0);
    Ok(())
}
