//! NCCL: collectives return at once, and nobody talks to anybody.

use std::ffi::{c_char, c_int};

use crate::nccl;
use crate::out::Out;
use crate::texts;

calls! {
    Nccl;
    answer {
        ncclGetVersion(version: Out<c_int>) = nccl::version;
        ncclGetUniqueId(id: Out<[u8; 128]>) = nccl::unique_id;
        ncclCommInitRank(communicator: Out<usize>, ranks: c_int, id: nccl::UniqueId, rank: c_int) = nccl::init;
        ncclCommInitRankConfig(communicator: Out<usize>, ranks: c_int, id: nccl::UniqueId, rank: c_int,
            configuration: usize) = nccl::init_with;
        ncclCommInitRankScalable(communicator: Out<usize>, ranks: c_int, rank: c_int, ids: c_int) = nccl::init_scalable;
        ncclCommSplit(communicator: usize, color: c_int, key: c_int, new: Out<usize>) = nccl::split;
        ncclCommDestroy(communicator: usize) = nccl::destroy;
        ncclCommAbort(communicator: usize) = nccl::destroy;
        ncclCommCount(communicator: usize, count: Out<c_int>) = nccl::count;
        ncclCommUserRank(communicator: usize, rank: Out<c_int>) = nccl::rank;
        ncclCommCuDevice(communicator: usize, device: Out<c_int>) = nccl::device;
        ncclMemAlloc(address: Out<u64>, size: usize) = crate::memory::malloc;
        ncclMemFree(address: u64) = crate::memory::free;
        ncclAllGather() = nccl::collective;
        ncclAllReduce() = nccl::collective;
        ncclAlltoAll() = nccl::collective;
        ncclBcast() = nccl::collective;
        ncclBroadcast() = nccl::collective;
        ncclGather() = nccl::collective;
        ncclRecv() = nccl::collective;
        ncclReduce() = nccl::collective;
        ncclReduceScatter() = nccl::collective;
        ncclScatter() = nccl::collective;
        ncclSend() = nccl::collective;
        ncclPutSignal() = nccl::collective;
        ncclSignal() = nccl::collective;
        ncclWaitSignal() = nccl::collective;
    }
    value {
        ncclGetErrorString(code: c_int) -> *const c_char = texts::status_string;
        ncclGetLastError(communicator: usize) -> *const c_char = texts::no_words;
    }
    create {
        ncclRedOpCreatePreMulSum
    }
    zero {
        ncclCommGetAsyncError[1: i32] ncclCommMemStats[2: u64] ncclCommRegister[3: usize]
    }
    succeed {
        ncclCommDeregister ncclCommFinalize ncclCommResume ncclCommRevoke ncclCommSuspend ncclGroupEnd ncclGroupStart
        ncclRedOpDestroy
    }
    refuse {
        ncclCommGetUniqueId ncclCommGrow ncclCommInitAll ncclCommShrink ncclCommWindowDeregister
        ncclCommWindowRegister ncclDevCommCreate ncclDevCommDestroy ncclGetLsaMultimemDevicePointer
        ncclGetPeerDevicePointer ncclGroupSimulateEnd ncclWinGetUserPtr
    }
}
