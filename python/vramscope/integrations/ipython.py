"""IPython magics: `%load_ext vramscope`, then `%vram` before a statement or `%%vram` above a cell.

%vram loss = step(batch)     measures a statement
%%vram                       measures a cell
%%vram -l                    measures each statement of a cell
"""

from __future__ import annotations

import ast
from typing import Any

from IPython.core.error import UsageError
from IPython.core.magic import Magics, line_cell_magic, magics_class

from vramscope.profiler import GPUMemoryProfiler, ProfileResult, format_bytes


@magics_class
class VramMagics(Magics):  # type: ignore[misc, unused-ignore]
    """The magic `vram`; `results` holds the measurements."""

    #: The profiler that measures; created on first use, or set by the user.
    profiler: GPUMemoryProfiler | None = None

    @line_cell_magic  # type: ignore[untyped-decorator, unused-ignore]
    def vram(self, line: str, cell: str | None = None) -> None:
        """Runs a statement or a cell, and prints its peak of allocated GPU memory and the bytes that stay allocated.

        With `-l`, each statement of the cell gets its own line. Errors propagate as usual.
        """
        by_line = cell is not None and line.strip() in ("-l", "--lines")
        if cell is not None and line.strip() and not by_line:
            raise UsageError(f"%%vram does not know {line.strip()!r}; its only option is -l")
        source = line if cell is None else cell
        code = self.shell.transform_cell(source)
        # IPython keeps the source under this name, so that tracebacks and stacks show its lines.
        file = self.shell.compile.cache(code, self.shell.execution_count, raw_code=source)
        body = ast.parse(code).body
        profiler = self.profiler
        if profiler is None:
            profiler = VramMagics.profiler = GPUMemoryProfiler(max_results=1000)
        rows: list[tuple[str, ProfileResult]] = []
        whole = profiler.profile_context("cell")
        value = None
        try:
            with whole:
                for i, statement in enumerate(body):
                    if not by_line:
                        value = self._run(statement, file, last=i == len(body) - 1)
                        continue
                    shown = ast.unparse(statement).splitlines()[0]
                    part = profiler.profile_context(shown)
                    try:
                        with part:
                            value = self._run(statement, file, last=i == len(body) - 1)
                    finally:
                        if part.result is not None:
                            rows.append((shown, part.result))
        finally:
            if whole.result is not None:
                rows.append(("all" if by_line else "", whole.result))
                _show(rows)
        if value is not None:
            self.shell.displayhook(value)

    def _run(self, statement: ast.stmt, file: str, *, last: bool) -> Any:
        """Runs a statement in the user's namespace; returns the value of a last expression."""
        names = self.shell.user_ns
        if last and isinstance(statement, ast.Expr):
            return eval(compile(ast.Expression(statement.value), file, "eval"), names)  # noqa: S307
        exec(compile(ast.Module([statement], []), file, "exec"), names)  # noqa: S102
        return None


def _show(rows: list[tuple[str, ProfileResult]]) -> None:
    for name, result in rows:
        at_least = "" if result.peak_is_exact else "at least "
        peak, kept = format_bytes(result.peak_memory_usage()), format_bytes(result.memory_diff(), signed=True)
        above = format_bytes(result.peak_above_start(), signed=True)
        print(f"peak {at_least}{peak} ({above}), kept {kept}, {result.execution_time:.3f} s  {name}".rstrip())


def load_ipython_extension(shell: Any) -> None:
    """Registers the magics; `%load_ext` calls this."""
    shell.register_magics(VramMagics)
