//! NCCL: operations return at once; data from the host is transferred.

use std::ffi::{c_char, c_int};

use crate::nccl::{self, collectives, groups};
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
        ncclCommInitRankScalable(communicator: Out<usize>, ranks: c_int, rank: c_int, count: c_int,
            ids: *const nccl::UniqueId, configuration: usize) = nccl::init_scalable;
        ncclCommSplit(communicator: usize, color: c_int, key: c_int, new: Out<usize>, configuration: usize)
            = nccl::split;
        ncclCommDestroy(communicator: usize) = nccl::destroy;
        ncclCommAbort(communicator: usize) = nccl::destroy;
        ncclCommCount(communicator: usize, count: Out<c_int>) = nccl::count;
        ncclCommUserRank(communicator: usize, rank: Out<c_int>) = nccl::rank;
        ncclCommCuDevice(communicator: usize, device: Out<c_int>) = nccl::device;
        ncclGroupStart() = groups::start;
        ncclGroupEnd() = groups::end;
        ncclMemAlloc(address: Out<u64>, size: usize) = crate::memory::malloc;
        ncclMemFree(address: u64) = crate::memory::free;
        ncclAllGather(from: u64, to: u64, count: usize, kind: c_int, communicator: usize, stream: usize)
            = collectives::all_gather;
        ncclAllReduce(from: u64, to: u64, count: usize, kind: c_int, operation: c_int, communicator: usize,
            stream: usize) = collectives::all_reduce;
        ncclAlltoAll(from: u64, to: u64, count: usize, kind: c_int, communicator: usize, stream: usize)
            = collectives::all_to_all;
        ncclBcast(buffer: u64, count: usize, kind: c_int, root: c_int, communicator: usize, stream: usize)
            = collectives::broadcast_in_place;
        ncclBroadcast(from: u64, to: u64, count: usize, kind: c_int, root: c_int, communicator: usize, stream: usize)
            = collectives::broadcast;
        ncclGather(from: u64, to: u64, count: usize, kind: c_int, root: c_int, communicator: usize, stream: usize)
            = collectives::gather;
        ncclRecv(to: u64, count: usize, kind: c_int, peer: c_int, communicator: usize, stream: usize)
            = collectives::receive;
        ncclReduce(from: u64, to: u64, count: usize, kind: c_int, operation: c_int, root: c_int,
            communicator: usize, stream: usize) = collectives::reduce_to_root;
        ncclReduceScatter(from: u64, to: u64, count: usize, kind: c_int, operation: c_int, communicator: usize,
            stream: usize) = collectives::reduce_scatter;
        ncclScatter(from: u64, to: u64, count: usize, kind: c_int, root: c_int, communicator: usize, stream: usize)
            = collectives::scatter;
        ncclSend(from: u64, count: usize, kind: c_int, peer: c_int, communicator: usize, stream: usize)
            = collectives::send;
        ncclPutSignal() = collectives::signal;
        ncclSignal() = collectives::signal;
        ncclWaitSignal() = collectives::signal;
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
        ncclCommDeregister ncclCommFinalize ncclCommResume ncclCommRevoke ncclCommSuspend
        ncclRedOpDestroy
    }
    refuse {
        ncclCommGetUniqueId ncclCommGrow ncclCommInitAll ncclCommShrink ncclCommWindowDeregister
        ncclCommWindowRegister ncclDevCommCreate ncclDevCommDestroy ncclGetLsaMultimemDevicePointer
        ncclGetPeerDevicePointer ncclGroupSimulateEnd ncclWinGetUserPtr
    }
}
