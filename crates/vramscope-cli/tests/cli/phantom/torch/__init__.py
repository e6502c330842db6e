"""A stand-in for PyTorch, with what the recorder asks of it. Its snapshot is a recording of the project's."""

__version__ = "2.11.0+stand-in"


class _C:
    @staticmethod
    def _cuda_attach_out_of_memory_observer(observer):
        _C.observer = observer


class cuda:
    @staticmethod
    def _lazy_call(call):
        call()

    @staticmethod
    def device_count():
        return 1

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
        def _record_memory_history(max_entries, stacks):
            print("recording", stacks)

        @staticmethod
        def _dump_snapshot(path):
            import os
            import shutil

            shutil.copyfile(os.environ["SNAPSHOT"], path)
            if cuda.memory.dies:
                os.truncate(path, 100)
                os.kill(os.getpid(), 9)
