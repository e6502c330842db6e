"""A stand-in for PyTorch with the functions that the recorder uses. Its snapshot is one of the project's recordings."""

__version__ = "2.11.0+stand-in"


class _C:
    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer


class Dying:
    """A snapshot that kills the process when it is written."""

    def __reduce__(self):
        import os

        os.kill(os.getpid(), 9)


class cuda:
    @staticmethod
    def _lazy_call(call):
        call()

    @staticmethod
    def device_count():
        return 1

    @staticmethod
    def get_arch_list():
        return ["sm_80", "sm_90", "compute_90"]

    @staticmethod
    def get_allocator_backend():
        import os

        return os.environ.get("ALLOCATOR", "native")

    @staticmethod
    def memory_stats(device):
        return {"allocated_bytes.all.peak": 1000, "reserved_bytes.all.peak": 2000}

    @staticmethod
    def get_device_properties(device):
        return None

    class memory:
    # Whether the process is killed while it writes a snapshot.
        dies = False

        @staticmethod
        def _record_memory_history(enabled="all", context="all", stacks="all", max_entries=0):
            print("recording", stacks)

        _record_memory_history_impl = _record_memory_history

        @staticmethod
        def _snapshot():
            import os
            import pickle

            with open(os.environ["SNAPSHOT"], "rb") as file:
                snapshot = pickle.load(file)
            return [Dying(), snapshot] if cuda.memory.dies else snapshot
