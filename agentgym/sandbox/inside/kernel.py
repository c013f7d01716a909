"""Python inside the sandbox: one program, or a persistent kernel. Standard library only."""

from __future__ import annotations

import _ast as ast  # without its Python part, to save memory in kernels
import atexit
import builtins
import contextlib
import gc
import io
import linecache
import os
import random
import signal
import socket
import struct
import sys
import traceback
from types import CodeType, ModuleType

TYPE_CHECKING = False  # importing `typing` would take half a megabyte in every kernel
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

CONTROL = 3
"""File descriptor over which a kernel receives steps and confirms their end."""


def run(kind: str, request: Mapping[str, Any]) -> int:
    """Run the requested program in this process: `python` runs once, `kernel` serves steps. Return the exit code."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = [""]
    sys.dont_write_bytecode = True
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    sys.path.insert(0, request["cwd"])
    for module in (random, sys.modules.get("numpy.random")):
        if module is not None:
            module.seed(0)  # makes a program's output repeatable
    for name in ("SIGPIPE", "SIGXFSZ"):
        signal.signal(getattr(signal, name), signal.SIG_IGN)  # as in Python: an OSError instead
    space = main.__dict__
    if kind == "python":
        before = set(sys.modules)
        code = _execute(request["code"], "<program>", space, last=False)
        _finish(space, before)
        return code
    return _serve(space)


def _serve(space: dict[str, object]) -> int:
    """Run steps until the host closes the control socket; Ctrl-C interrupts a step, and is ignored between steps."""
    heeding = signal.signal(signal.SIGINT, signal.SIG_IGN)
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    number = -1  # the first step confirms readiness
    while True:
        code = _receive(control)
        if code is None:
            return 0
        number += 1
        status = 1
        try:
            signal.signal(signal.SIGINT, heeding)
            status = _execute(code, f"<cell {number}>", space, last=True)
        except KeyboardInterrupt:  # before the step began or after it ended
            status = 130
        while True:  # inline, because an interrupt may be raised at a function's start
            try:
                heeding = signal.signal(signal.SIGINT, signal.SIG_IGN) or heeding
                break
            except KeyboardInterrupt:
                status = 130
        _flush()
        answer = f'{{"status": {status:d}}}'.encode()
        control.sendall(struct.pack("I", len(answer)) + answer)


def _receive(control: socket.socket) -> str | None:
    head = control.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    (length,) = struct.unpack("I", head)
    return control.recv(length, socket.MSG_WAITALL).decode("utf-8", "replace") if length else ""


def _finish(space: dict[str, object], before: set[str]) -> None:
    """Exit as the interpreter would: wait for threads, call exit functions, flush and close open files.

    The interpreter's own finalization would also tear down all preloaded libraries.
    """
    try:
        if "threading" in sys.modules:
            sys.modules["threading"]._shutdown()
        atexit._run_exitfuncs()  # pyright: ignore[reportPrivateUsage]
        for tracked in gc.get_objects():
            if type(tracked) in (io.TextIOWrapper, io.BufferedWriter) and not tracked.closed:
                with contextlib.suppress(OSError, ValueError):
                    tracked.flush()  # files in a cycle might be destroyed before they are flushed
        for name in set(sys.modules) - before:
            del sys.modules[name]
        space.clear()
        gc.collect()
    except BaseException as error:
        traceback.print_exception(type(error), error, error.__traceback__)
    _flush()


def _execute(source: str, name: str, space: dict[str, object], *, last: bool) -> int:
    """Run code, and print an exception like the interpreter; return the exit code, 0 for success."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        for code in _compiled(source, name, last):
            exec(code, space)
        return 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return (stop.code or 0) & 255
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename == __file__:
            frames = frames.tb_next  # only the program's own
        traceback.print_exception(type(error), error, frames)
        return 130 if isinstance(error, KeyboardInterrupt) else 1


def _flush() -> None:
    for name in ("stdout", "stderr"):
        try:
            getattr(sys, name).flush()
        except Exception:  # the program may have closed or replaced it
            setattr(sys, name, _null())


def _compiled(source: str, name: str, last: bool) -> list[CodeType]:
    """Compile code; with `last`, an expression in the last line displays its value."""
    tree = compile(source, name, "exec", ast.PyCF_ONLY_AST)
    assert isinstance(tree, ast.Module)
    if not (last and tree.body and isinstance(tree.body[-1], ast.Expr)):
        return [compile(tree, name, "exec")]
    expression = ast.Interactive([tree.body.pop()])
    return [compile(tree, name, "exec"), compile(expression, name, "single")]


def _null() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")
