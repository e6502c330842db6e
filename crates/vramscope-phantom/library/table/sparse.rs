//! cuSPARSE. Workspaces are left out: they count 0 bytes.

use std::ffi::c_char;

use crate::handles::new_handle;
use crate::launches;
use crate::memory::accesses;
use crate::out::Out;
use crate::status::Answer;
use crate::texts;

calls! {
    Cusparse;
    answer {
        cusparseSetStream(handle: usize, stream: usize) = launches::set_library_stream;
        cusparseCreateCoo(matrix: Out<usize>, rows: i64, columns: i64, count: i64, row_indices: u64, column_indices: u64,
            values: u64) = create_matrix;
        cusparseCreateCsr(matrix: Out<usize>, rows: i64, columns: i64, count: i64, row_offsets: u64, column_indices: u64,
            values: u64) = create_matrix;
        cusparseCsrSetPointers(matrix: usize, row_offsets: u64, column_indices: u64, values: u64) = set_pointers;
        cusparseCreateDnMat(matrix: Out<usize>, rows: i64, columns: i64, stride: i64, values: u64) = create_dense_matrix;
        cusparseCreateDnVec(vector: Out<usize>, size: i64, values: u64) = create_vector;
        cusparseDestroySpMat(matrix: usize) = destroy;
        cusparseDestroyDnMat(matrix: usize) = destroy;
        cusparseDestroyDnVec(vector: usize) = destroy;
        cusparseSpMatGetSize(matrix: usize, rows: Out<i64>, columns: Out<i64>, values: Out<i64>) = no_elements;
    }
    value {
        cusparseGetErrorString(status: i32) -> *const c_char = texts::status_string;
    }
    create {
        cusparseCreate cusparseCreateBsrsm2Info cusparseCreateBsrsv2Info
        cusparseCreateIdentityPermutation cusparseCreateMatDescr
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
        [_ p _ _ p] cusparseXcoo2csr;
        [_ _ _ _ p p p p] cusparseXcoosortByRow;
        [_ _ _ _ _ p p p p] cusparseXcsrsort;
        [_ _ p p p p _ _ p] cusparseSpSV_solve;
        [_ _ _ p p p p _ _ p] cusparseSpSM_solve;
        [_ _ p p p p _ _ p p] cusparseSpSV_analysis;
        [_ _ p p p p p _ _ p] cusparseSpMV;
        [_ _ _ p p p p _ _ p p] cusparseSpSM_analysis;
        [_ _ _ p p p p p _ _ p] cusparseSDDMM cusparseSDDMM_preprocess cusparseSpGEMM_copy cusparseSpMM;
        [_ _ _ _ _ _ p p p _ _ _ p] cusparseCbsrsv2_analysis cusparseDbsrsv2_analysis cusparseSbsrsv2_analysis
            cusparseZbsrsv2_analysis;
        [_ _ _ p p p p p _ _ p p p] cusparseSpGEMM_compute cusparseSpGEMM_workEstimation;
        [_ _ _ _ _ _ _ _ p p p _ _ _ p] cusparseCbsrsm2_analysis cusparseDbsrsm2_analysis cusparseSbsrsm2_analysis
            cusparseZbsrsm2_analysis;
        [_ _ _ _ _ _ p _ p p p _ p p p] cusparseCbsrmv cusparseDbsrmv cusparseSbsrmv cusparseZbsrmv;
        [_ _ _ _ _ p _ p p p _ _ p p _ p] cusparseCbsrsv2_solve cusparseDbsrsv2_solve cusparseSbsrsv2_solve
            cusparseZbsrsv2_solve;
        [_ _ _ _ _ _ _ _ p _ p p p _ p _ p p] cusparseCbsrmm cusparseDbsrmm cusparseSbsrmm cusparseZbsrmm;
        [_ _ _ _ _ _ _ p _ p p p _ _ p _ p _ _ p] cusparseCbsrsm2_solve cusparseDbsrsm2_solve cusparseSbsrsm2_solve
            cusparseZbsrsm2_solve;
        [_ _ _ p _ _ p p p p _ _ p p p _ p p p p] cusparseCcsrgeam2 cusparseDcsrgeam2 cusparseScsrgeam2
            cusparseZcsrgeam2;
    }
    succeed {
        cusparseCsrSetStridedBatch cusparseDestroy cusparseDestroyBsrsm2Info
        cusparseDestroyBsrsv2Info cusparseDestroyMatDescr cusparseDnMatSetStridedBatch cusparseSetMatDiagType cusparseSetMatFillMode
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

/// A descriptor with the addresses of its parts.
fn create(descriptor: &Out<usize>, parts: &[u64]) -> Answer {
    let new = new_handle();
    accesses::attach(new, 0, parts);
    descriptor.set(new)
}

fn create_matrix(
    matrix: Out<usize>,
    _rows: i64,
    _columns: i64,
    _count: i64,
    row_indices: u64,
    column_indices: u64,
    values: u64,
) -> Answer {
    create(&matrix, &[row_indices, column_indices, values])
}

fn set_pointers(matrix: usize, row_offsets: u64, column_indices: u64, values: u64) -> Answer {
    accesses::attach(matrix, 0, &[row_offsets, column_indices, values]);
    Ok(())
}

fn create_dense_matrix(matrix: Out<usize>, _rows: i64, _columns: i64, _stride: i64, values: u64) -> Answer {
    create(&matrix, &[values])
}

fn create_vector(vector: Out<usize>, _size: i64, values: u64) -> Answer {
    create(&vector, &[values])
}

fn destroy(descriptor: usize) -> Answer {
    accesses::detach(descriptor);
    Ok(())
}
