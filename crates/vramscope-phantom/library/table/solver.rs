//! cuSOLVER. Workspaces are not modelled: they count 0 bytes.

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
        cusolverDnCgeqrf cusolverDnCgesvd cusolverDnCgesvdaStridedBatched cusolverDnCgesvdj cusolverDnCgesvdjBatched
        cusolverDnCgetrf cusolverDnCgetrs cusolverDnCheevd cusolverDnCheevj cusolverDnCheevjBatched cusolverDnCpotrf
        cusolverDnCpotrfBatched cusolverDnCpotrs cusolverDnCpotrsBatched cusolverDnCsytrf cusolverDnCungqr
        cusolverDnCunmqr cusolverDnDgeqrf cusolverDnDgesvd cusolverDnDgesvdaStridedBatched cusolverDnDgesvdj
        cusolverDnDgesvdjBatched cusolverDnDgetrf cusolverDnDgetrs cusolverDnDorgqr cusolverDnDormqr cusolverDnDpotrf
        cusolverDnDpotrfBatched cusolverDnDpotrs cusolverDnDpotrsBatched cusolverDnDsyevd cusolverDnDsyevj
        cusolverDnDsyevjBatched cusolverDnDsytrf cusolverDnSgeqrf cusolverDnSgesvd cusolverDnSgesvdaStridedBatched
        cusolverDnSgesvdj cusolverDnSgesvdjBatched cusolverDnSgetrf cusolverDnSgetrs cusolverDnSorgqr
        cusolverDnSormqr cusolverDnSpotrf cusolverDnSpotrfBatched cusolverDnSpotrs cusolverDnSpotrsBatched
        cusolverDnSsyevd cusolverDnSsyevj cusolverDnSsyevjBatched cusolverDnSsytrf cusolverDnXgeev cusolverDnXgeqrf
        cusolverDnXpotrf cusolverDnXpotrs cusolverDnXsyevBatched cusolverDnXsyevd cusolverDnXsytrs cusolverDnZgeqrf
        cusolverDnZgesvd cusolverDnZgesvdaStridedBatched cusolverDnZgesvdj cusolverDnZgesvdjBatched cusolverDnZgetrf
        cusolverDnZgetrs cusolverDnZheevd cusolverDnZheevj cusolverDnZheevjBatched cusolverDnZpotrf
        cusolverDnZpotrfBatched cusolverDnZpotrs cusolverDnZpotrsBatched cusolverDnZsytrf cusolverDnZungqr
        cusolverDnZunmqr
    }
    succeed {
        cusolverDnDestroy cusolverDnDestroyGesvdjInfo cusolverDnDestroyParams cusolverDnDestroySyevjInfo
        cusolverDnXgesvdjSetMaxSweeps cusolverDnXgesvdjSetSortEig cusolverDnXgesvdjSetTolerance
        cusolverDnXsyevjSetSortEig
    }
}
