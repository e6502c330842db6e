"""Allocates in subinterpreters, each in a thread of its own and with its own addresses, and in the main interpreter meanwhile. The argument
is a library with the function `report(address, bytes, kind)`. Prints the number of interpreters, or why there are none.
"""
import sys, threading

try:
    import _interpreters as interpreters  # CPython 3.13
except ImportError:
    try:
        import _xxsubinterpreters as interpreters  # CPython 3.8 to 3.12
    except ImportError:
        sys.exit("this Python has no subinterpreters")

CODE = """
import ctypes
report = ctypes.CDLL({library!r}).report
report.argtypes = [ctypes.c_void_p, ctypes.c_long, ctypes.c_int]
def in_interpreter():
    for _ in range(100):
        report({address}, 512, 1)
        report({address}, -512, 1)
in_interpreter()
"""
THREADS, ROUNDS = 4, 5


def run(number):
    code = CODE.format(library=sys.argv[1], address=4096 * number)
    for isolated in (True, False):
        # With a lock of its own, if the interpreter can load ctypes then.
        if hasattr(interpreters, "exec"):
            interpreter = interpreters.create("isolated" if isolated else "legacy")
            error = interpreters.exec(interpreter, code)
        else:
            interpreter, error = interpreters.create(isolated=isolated), None
            try:
                interpreters.run_string(interpreter, code)
            except interpreters.RunFailedError as failed:
                error = failed
        interpreters.destroy(interpreter)
        if not error:
            return
        if "ImportError" not in str(error) or not isolated:
            raise RuntimeError(str(error))


def work(thread):
    for i in range(ROUNDS):
        run(1 + thread * ROUNDS + i)


threads = [threading.Thread(target=work, args=(i,)) for i in range(THREADS)]
for thread in threads:
    thread.start()
run(1 + THREADS * ROUNDS)
for thread in threads:
    thread.join()
print(1 + THREADS * ROUNDS)
