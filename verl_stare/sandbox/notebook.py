"""Runs code as a cell of a notebook does: the value of a last expression is printed.

Used inside the jail, by the process that runs the code; the standard library alone.
"""

from __future__ import annotations

import ast
import builtins
import contextlib
import errno
import linecache
import sys
import traceback
from types import CodeType, ModuleType, TracebackType
from typing import Any

FILE = "<code>"
NOT_PERMITTED = (
    "[not permitted: there is no network, no other process, and no file but in the work directory]"
)
# Of a traceback's frames, where recursion repeats them.
_FRAMES = 20


def run_cell(source: str, namespace: dict[str, Any]) -> int:
    """Run a source in a namespace, and print the value of its last expression.

    Errors are written to stderr as Python would, without the frames of this module.

    Returns:
        The exit code: 0, 1 after an exception, or what `sys.exit` was given.
    """
    try:
        body, last = _compiled(source)
        exec(body, namespace)
        if last is not None:
            value = eval(last, namespace)
            if value is not None:
                namespace["_"] = value
                print(repr(value))
    except SystemExit as exit_:
        return _exit_code(exit_)
    except BaseException as error:
        _report(error)
        return 1
    return 0


def _compiled(source: str) -> tuple[CodeType, CodeType | None]:
    # So that tracebacks show the lines.
    lines = source.splitlines(keepends=True)
    linecache.cache[FILE] = (len(source), None, lines, FILE)
    tree = ast.parse(source, FILE)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr):
        return _compile(tree, "exec"), None
    tree.body.pop()
    expression = ast.Expression(last.value)
    return _compile(tree, "exec"), _compile(expression, "eval")


def _compile(tree: ast.Module | ast.Expression, mode: str) -> CodeType:
    # Without what this module has imported from __future__.
    return compile(tree, FILE, mode, dont_inherit=True)


def _exit_code(exit_: SystemExit) -> int:
    if exit_.code is None:
        return 0
    if isinstance(exit_.code, int):
        return exit_.code & 0xFF
    print(exit_.code, file=sys.stderr)
    return 1


def _report(error: BaseException) -> None:
    """Write a traceback, and say what the sandbox forbids where it was that."""
    try:
        text = "".join(
            traceback.format_exception(
                type(error), error, _own_frames(error.__traceback__), limit=-_FRAMES
            )
        )
        if isinstance(error, PermissionError) and error.errno in (errno.EPERM, errno.EACCES):
            text += NOT_PERMITTED + "\n"
        sys.stderr.write(text)
    except BaseException:
        # An exception may break its own printing, and code the stream.
        with contextlib.suppress(BaseException):
            sys.stderr.write(f"{type(error).__name__}\n")


def _own_frames(frames: TracebackType | None) -> TracebackType | None:
    """The traceback from the code's own first frame on."""
    first = frames
    while first is not None and first.tb_frame.f_code.co_filename != FILE:
        first = first.tb_next
    return first


def new_namespace() -> dict[str, Any]:
    """Globals of a program that is run by itself: those of a new module `__main__`."""
    module = sys.modules["__main__"] = ModuleType("__main__")
    module.__dict__["__builtins__"] = builtins
    return module.__dict__
