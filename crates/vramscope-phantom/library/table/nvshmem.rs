//! NVSHMEM: memory shared between GPUs. Its initialization is refused, so programs use nothing else of it.

calls! {
    Nvshmem;
    value {
        nvshmem_malloc() -> usize = nothing;
        nvshmem_ptr() -> usize = nothing;
        nvshmemx_mc_ptr() -> usize = nothing;
        nvshmemid_init_status() -> usize = nothing;
    }
    succeed {
        nvshmem_barrier_all nvshmem_free nvshmem_info_get_version nvshmemid_hostlib_finalize nvshmemx_signal_wait_until_on_stream
    }
    refuse {
        nvshmem_init nvshmem_selected_device_transport nvshmem_team_n_pes nvshmem_team_split_strided nvshmemid_hostlib_init_attr
        nvshmemx_alltoallmem_on_stream nvshmemx_broadcastmem_on_stream nvshmemx_cumodule_init nvshmemx_get_uniqueid
        nvshmemx_getmem_on_stream nvshmemx_putmem_on_stream nvshmemx_putmem_signal_on_stream
        nvshmemx_set_attr_uniqueid_args
    }
}

/// Null: no address, and not initialized.
fn nothing() -> usize {
    0
}
