//! cuSOLVER. Workspaces are left out: they count 0 bytes.

use crate::launches;

calls! {
    Cusolver;
    answer {
        cusolverDnSetStream(handle: usize, stream: usize) = launches::set_library_stream;
    }
    create {
        cusolverDnCreate cusolverDnCreateGesvdjInfo cusolverDnCreateParams cusolverDnCreateSyevjInfo
    }
    zero {
        cusolverDnCgeqrf_bufferSize[5: i32] cusolverDnCgesvd_bufferSize[3: i32]
        cusolverDnCgesvdaStridedBatched_bufferSize[16: i32] cusolverDnCgesvdjBatched_bufferSize[11: i32]
        cusolverDnCgesvdj_bufferSize[12: i32] cusolverDnCgetrf_bufferSize[5: i32] cusolverDnCheevd_bufferSize[7: i32]
        cusolverDnCheevjBatched_bufferSize[7: i32] cusolverDnCheevj_bufferSize[7: i32]
        cusolverDnCpotrf_bufferSize[5: i32] cusolverDnCsytrf_bufferSize[4: i32] cusolverDnCungqr_bufferSize[7: i32]
        cusolverDnCunmqr_bufferSize[11: i32] cusolverDnDgeqrf_bufferSize[5: i32] cusolverDnDgesvd_bufferSize[3: i32]
        cusolverDnDgesvdaStridedBatched_bufferSize[16: i32] cusolverDnDgesvdjBatched_bufferSize[11: i32]
        cusolverDnDgesvdj_bufferSize[12: i32] cusolverDnDgetrf_bufferSize[5: i32] cusolverDnDorgqr_bufferSize[7: i32]
        cusolverDnDormqr_bufferSize[11: i32] cusolverDnDpotrf_bufferSize[5: i32] cusolverDnDsyevd_bufferSize[7: i32]
        cusolverDnDsyevjBatched_bufferSize[7: i32] cusolverDnDsyevj_bufferSize[7: i32]
        cusolverDnDsytrf_bufferSize[4: i32] cusolverDnSgeqrf_bufferSize[5: i32] cusolverDnSgesvd_bufferSize[3: i32]
        cusolverDnSgesvdaStridedBatched_bufferSize[16: i32] cusolverDnSgesvdjBatched_bufferSize[11: i32]
        cusolverDnSgesvdj_bufferSize[12: i32] cusolverDnSgetrf_bufferSize[5: i32] cusolverDnSorgqr_bufferSize[7: i32]
        cusolverDnSormqr_bufferSize[11: i32] cusolverDnSpotrf_bufferSize[5: i32] cusolverDnSsyevd_bufferSize[7: i32]
        cusolverDnSsyevjBatched_bufferSize[7: i32] cusolverDnSsyevj_bufferSize[7: i32]
        cusolverDnSsytrf_bufferSize[4: i32] cusolverDnZgeqrf_bufferSize[5: i32] cusolverDnZgesvd_bufferSize[3: i32]
        cusolverDnZgesvdaStridedBatched_bufferSize[16: i32] cusolverDnZgesvdjBatched_bufferSize[11: i32]
        cusolverDnZgesvdj_bufferSize[12: i32] cusolverDnZgetrf_bufferSize[5: i32] cusolverDnZheevd_bufferSize[7: i32]
        cusolverDnZheevjBatched_bufferSize[7: i32] cusolverDnZheevj_bufferSize[7: i32]
        cusolverDnZpotrf_bufferSize[5: i32] cusolverDnZsytrf_bufferSize[4: i32] cusolverDnZungqr_bufferSize[7: i32]
        cusolverDnZunmqr_bufferSize[11: i32]
    }
    zeros {
        cusolverDnXgeev_bufferSize[17] cusolverDnXgeqrf_bufferSize[10] cusolverDnXpotrf_bufferSize[8]
        cusolverDnXsyevBatched_bufferSize[11] cusolverDnXsyevd_bufferSize[11] cusolverDnXsytrs_bufferSize[11]
    }
    launch {
        [_ _ _ p _ p] cusolverDnCpotrfBatched cusolverDnDpotrfBatched cusolverDnSpotrfBatched cusolverDnZpotrfBatched;
        [_ _ _ p _ p _ p] cusolverDnCpotrf cusolverDnDpotrf cusolverDnSpotrf cusolverDnZpotrf;
        [_ _ _ p _ p p p] cusolverDnCgetrf cusolverDnDgetrf cusolverDnSgetrf cusolverDnZgetrf;
        [_ _ _ _ p _ p _ p] cusolverDnCpotrs cusolverDnCpotrsBatched cusolverDnDpotrs cusolverDnDpotrsBatched
            cusolverDnSpotrs cusolverDnSpotrsBatched cusolverDnZpotrs cusolverDnZpotrsBatched;
        [_ _ _ p _ p p _ p] cusolverDnCgeqrf cusolverDnCsytrf cusolverDnDgeqrf cusolverDnDsytrf cusolverDnSgeqrf
            cusolverDnSsytrf cusolverDnZgeqrf cusolverDnZsytrf;
        [_ _ _ _ p _ p p _ p] cusolverDnCgetrs cusolverDnCheevd cusolverDnCheevj cusolverDnCheevjBatched
            cusolverDnCungqr cusolverDnDgetrs cusolverDnDorgqr cusolverDnDsyevd cusolverDnDsyevj
            cusolverDnDsyevjBatched cusolverDnSgetrs cusolverDnSorgqr cusolverDnSsyevd cusolverDnSsyevj
            cusolverDnSsyevjBatched cusolverDnZgetrs cusolverDnZheevd cusolverDnZheevj cusolverDnZheevjBatched
            cusolverDnZungqr;
        [_ _ _ _ _ _ p _ _ p _ p] cusolverDnXpotrs;
        [_ _ _ _ _ p _ _ p _ p _ p] cusolverDnXpotrf;
        [_ _ _ _ _ _ p _ p p _ p _ p] cusolverDnCunmqr cusolverDnDormqr cusolverDnSormqr cusolverDnZunmqr;
        [_ _ _ _ p _ p p _ p _ p _ p] cusolverDnCgesvdjBatched cusolverDnDgesvdjBatched cusolverDnSgesvdjBatched
            cusolverDnZgesvdjBatched;
        [_ _ _ _ _ p _ _ p _ p _ p _ p] cusolverDnXgeqrf;
        [_ _ _ _ _ p _ p p _ p _ p _ p] cusolverDnCgesvdj cusolverDnDgesvdj cusolverDnSgesvdj cusolverDnZgesvdj;
        [_ _ _ _ _ _ p _ _ p _ p _ p _ p] cusolverDnXsyevBatched cusolverDnXsyevd;
        [_ _ _ _ _ p _ p _ p _ p _ p _ p] cusolverDnXsytrs;
        [_ _ _ _ _ p _ p p _ p _ p _ p p] cusolverDnCgesvd cusolverDnDgesvd cusolverDnSgesvd cusolverDnZgesvd;
        [_ _ _ _ _ p _ _ p _ p _ _ p _ _ p _ p p] cusolverDnCgesvdaStridedBatched cusolverDnDgesvdaStridedBatched
            cusolverDnSgesvdaStridedBatched cusolverDnZgesvdaStridedBatched;
        [_ _ _ _ _ _ p _ _ p _ p _ _ p _ _ p _ p _ p] cusolverDnXgeev;
    }
    succeed {
        cusolverDnDestroy cusolverDnDestroyGesvdjInfo cusolverDnDestroyParams cusolverDnDestroySyevjInfo
        cusolverDnXgesvdjSetMaxSweeps cusolverDnXgesvdjSetSortEig cusolverDnXgesvdjSetTolerance
        cusolverDnXsyevjSetSortEig
    }
}
