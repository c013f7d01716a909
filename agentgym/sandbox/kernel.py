"""Python inside the jail: one program, or a kernel that keeps its state. Standard library only, next to hostile code."""

import ast
import builtins
import io
import json
import linecache
import os
import socket
import struct
import sys
import traceback
from types import CodeType, ModuleType
from typing import Any

CONTROL = 3
"""The file over which a kernel is told what to run and answers that it is done."""


def run(kind: str, request: dict[str, Any]) -> int:
    """Be the program that a request asks for and return its exit code."""
    main = ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = [""]
    builtins.exit = builtins.quit = sys.exit  # type: ignore[assignment]
    sys.path.insert(0, request["cwd"])
    space = main.__dict__
    if kind == "python":
        return _shown(request["code"], "<program>", space, last=False)
    control = socket.socket(fileno=CONTROL)
    control.set_inheritable(False)
    number = -1  # the first step finds out whether all is ready
    while True:
        code = _receive(control)
        if code is None:
            return 0
        number += 1
        status = _shown(code, f"<cell {number}>", space, last=True)
        answer = json.dumps({"status": status}).encode()
        control.sendall(struct.pack("I", len(answer)) + answer)


def _receive(control: socket.socket) -> str | None:
    head = control.recv(4, socket.MSG_WAITALL)
    if len(head) < 4:
        return None
    (length,) = struct.unpack("I", head)
    return control.recv(length, socket.MSG_WAITALL).decode("utf-8", "replace") if length else ""


def _shown(source: str, name: str, space: dict[str, Any], *, last: bool) -> int:
    """Run code, print what it raises as Python does, and flush; 0 if all went well, else what its exit code would be."""
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    try:
        for code in _compiled(source, name, last):
            exec(code, space)
        return 0
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except BaseException as error:
        frames = error.__traceback__
        while frames is not None and frames.tb_frame.f_code.co_filename in (__file__, ast.__file__):
            frames = frames.tb_next  # the program's own alone
        traceback.print_exception(type(error), error, frames)
        return 130 if isinstance(error, KeyboardInterrupt) else 1
    finally:
        for stream in (sys.stdout, sys.stderr):
            try:
                stream.flush()
            except Exception:  # the program may have closed or replaced it
                setattr(sys, "stdout" if stream is sys.stdout else "stderr", _null())


def _compiled(source: str, name: str, last: bool) -> list[CodeType]:
    """Compile code; in a kernel the value of a last line that is an expression is displayed."""
    tree = ast.parse(source, name)
    if not (last and tree.body and isinstance(tree.body[-1], ast.Expr)):
        return [compile(tree, name, "exec")]
    expression = ast.Interactive([tree.body.pop()])
    return [compile(tree, name, "exec"), compile(expression, name, "single")]


def _null() -> io.TextIOWrapper:
    return open(os.devnull, "w", encoding="utf-8")
