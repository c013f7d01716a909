"""Process 1 of a container: starts every execution of one sandbox, and kills all processes that an execution leaves.

`docker/sandbox.py` sends this module over the container's input; it needs only the standard library, from Python 3.8 on.
Programs run as the same user but cannot reach process 1: no signal from inside kills it, and they cannot read its memory
and files. Every execution adopts its orphaned descendants, so a process without a living execution above it is a stray.
"""

import contextlib
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
from functools import partial
from typing import Any, Callable  # noqa: UP035  read by Python 3.8

from agentgym.sandbox.docker import frames as frames
from agentgym.sandbox.docker import processes as processes
from agentgym.sandbox.docker.program import Program, be_program, status_in
from agentgym.sandbox.inside import system

PATIENCE = 2.0
"""Seconds between Ctrl-C and the kill of a kernel that ignores it."""
PULSE = 0.02
"""Seconds between two checks of limits that the daemon does not enforce."""
BACKLOG = 1 << 18
"""Maximum bytes that wait for a reader; beyond it, no more are read from the writer."""
PIECE = 4096
"""Number of bytes that a pipe ready for writing always accepts."""


class Init:
    """Receives requests from the host, starts programs, forwards their streams and kills them."""

    def __init__(self, settings: dict[str, Any], hear: int, tell: int) -> None:
        self.settings, self.hear, self.tell = settings, hear, tell
        self.programs: dict[int, Program] = {}
        self.incoming, self.outgoing = bytearray(), bytearray()
        self.woken, waking = os.pipe()
        for file in (self.woken, waking):
            os.set_blocking(file, False)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, _heed)

    def serve(self) -> None:
        """Serve requests until the host closes the stream."""
        while True:
            actions = self._wanted()
            poll = select.poll()
            for file, (events, _) in actions.items():
                poll.register(file, events)
            for file, _ in poll.poll(self._wait()):
                actions[file][1]()
            self._take_requests()
            self._look()

    def say(self, number: int, kind: int, body: bytes) -> None:
        """Queue a frame for the host."""
        self.outgoing += frames.HEAD.pack(number, kind, len(body)) + body

    def _wanted(self) -> dict[int, tuple[int, Callable[[], object]]]:
        """Return the `poll` events to wait for and the callback, by file descriptor."""
        backlog = max((len(program.pending) for program in self.programs.values()), default=0)
        waiting: dict[int, tuple[int, Callable[[], object]]] = {self.woken: (select.POLLIN, self._reap)}
        if backlog < BACKLOG:
            waiting[self.hear] = (select.POLLIN, self._hear)
        if self.outgoing:
            waiting[self.tell] = (select.POLLOUT, self._tell)
        for program in self.programs.values():
            for kind in (frames.OUT, frames.ERR):
                if kind in program.streams and program.listening and len(self.outgoing) < BACKLOG:
                    waiting[program.streams[kind]] = (select.POLLIN, partial(self._take, program, kind))
            if program.control >= 0:
                events = select.POLLIN | (select.POLLOUT if program.pending else 0)
                waiting[program.control] = (events, partial(self._talk, program))
            elif program.feed >= 0 and (program.pending or program.last):
                waiting[program.feed] = (select.POLLOUT, partial(self._feed, program))
        return waiting

    def _wait(self) -> float:
        """Return the milliseconds until the next deadline or check of limits."""
        due = min((program.deadline for program in self.programs.values()), default=float("inf"))
        busy = any(program.listening for program in self.programs.values())
        pulse = PULSE if self.settings["watch"] and busy else 3600.0
        return 1000 * max(min(due - time.monotonic(), pulse), 0.0) + 1

    # The host

    def _hear(self) -> None:
        piece = os.read(self.hear, frames.CHUNK)
        if not piece:
            processes.end_all()
            os._exit(0)
        self.incoming += piece

    def _tell(self) -> None:
        sent = os.write(self.tell, self.outgoing[:PIECE])
        del self.outgoing[:sent]

    def _take_requests(self) -> None:
        while len(self.incoming) >= frames.HEAD.size:
            number, kind, length = frames.HEAD.unpack_from(self.incoming)
            end = frames.HEAD.size + length
            if len(self.incoming) < end:
                return
            body = bytes(self.incoming[frames.HEAD.size : end])
            del self.incoming[:end]
            program = self.programs.get(number)
            if kind == frames.START:
                self._start(number, json.loads(body))
            elif program is None:
                continue  # it has ended, and the host will be told
            elif kind == frames.CUT:
                self._end(program, "killed")
            elif kind == frames.STEP:
                self._step(program, body)
            else:
                program.pending += body
                program.last = not body

    # Programs

    def _start(self, number: int, request: dict[str, Any]) -> None:
        inner: list[int] = [-1, -1, -1]
        outer: dict[int, int] = {}
        inner[0], outer[frames.INPUT] = os.pipe()
        outer[frames.OUT], inner[1] = os.pipe()
        outer[frames.ERR], inner[2] = os.pipe()
        control = -1
        if request["kind"] == "kernel":
            ours, theirs = socket.socketpair()
            control = ours.detach()
            inner.append(theirs.detach())
        for file in (*outer.values(), *([control] if control >= 0 else [])):
            os.set_blocking(file, False)
        try:
            pid = os.fork()
        except OSError as error:  # other programs here use up all processes
            self.say(number, frames.ERR, f"no process could be started: {error.strerror}\n".encode())
            self._report(number, {"reason": "killed", "status": -signal.SIGKILL, "seconds": 0.0})
            for file in (*inner, *outer.values(), *([control] if control >= 0 else [])):
                os.close(file)
            return
        if not pid:
            be_program(request, inner, self.settings)
        for file in inner:
            os.close(file)
        program = Program(number, pid, request, outer, control, processes.files_in(self.settings["folders"]))
        if control >= 0:
            program.close(frames.INPUT)
        self.programs[number] = program

    def _feed(self, program: Program) -> None:
        try:
            del program.pending[: os.write(program.feed, program.pending[: frames.CHUNK])]
        except BlockingIOError:
            return
        except OSError:  # it has closed its input
            program.pending.clear()
        if program.last and not program.pending and program.control < 0:
            program.close(frames.INPUT)

    def _take(self, program: Program, kind: int) -> bool:
        """Read once from an output stream and forward the bytes; return False if none are available now."""
        file = program.streams.get(kind)
        if file is None:
            return False
        try:
            piece = os.read(file, frames.CHUNK)
        except BlockingIOError:
            return False
        if not piece:
            program.close(kind)
            return False
        room = program.room[kind]
        program.room[kind] = room - min(len(piece), room)
        if room:
            self.say(program.number, kind, piece[:room])
        if len(piece) > room:
            program.overflow = True
            self._end(program, "output")
        return True

    def _step(self, program: Program, body: bytes) -> None:
        (timeout,) = frames.TIMEOUT.unpack_from(body)
        code = body[frames.TIMEOUT.size :]
        program.pending += frames.LENGTH.pack(len(code)) + code
        program.room = {frames.OUT: program.cap, frames.ERR: program.cap}
        program.stepping, program.reason, program.starved = True, "exit", processes.kills()
        program.started = time.monotonic()
        program.deadline = program.started + timeout

    def _talk(self, program: Program) -> None:
        """Send pending code to a kernel, and report its step if that is done."""
        if program.control < 0:
            return
        if program.pending:
            self._feed(program)
        try:
            piece = os.read(program.control, PIECE)
        except BlockingIOError:
            return
        except OSError:
            piece = b""
        program.answer += piece
        size = frames.LENGTH.size
        done = len(program.answer) >= size and len(program.answer) >= size + frames.LENGTH.unpack_from(program.answer)[0]
        if not piece or (not done and len(program.answer) > PIECE):
            self._end(program, "killed")  # the program tampered with the control file, so it is no longer a kernel
        elif done and program.stepping:
            answer = bytes(program.answer[size:])
            program.answer.clear()
            self._drain(program)
            if program.number in self.programs:
                program.stepping, program.deadline = False, float("inf")
                report = {"status": status_in(answer), "reason": program.reason}
                self.say(program.number, frames.ANSWER, json.dumps(report).encode())

    def _drain(self, program: Program) -> None:
        for kind in (frames.OUT, frames.ERR):
            while not program.overflow and self._take(program, kind):
                pass

    def _look(self) -> None:
        """Interrupt or kill programs that exceed their limits."""
        now = time.monotonic()
        for program in list(self.programs.values()):
            if now < program.deadline:
                continue
            if program.stepping and program.reason == "exit":
                program.reason, program.deadline = "timeout", now + PATIENCE
                os.killpg(program.pid, signal.SIGINT)  # with its foreground children
            else:
                self._end(program, "timeout")
        if self.settings["watch"] and self.programs:
            self._look_closer()

    def _look_closer(self) -> None:
        """Kill programs that exceed limits that the daemon does not enforce."""
        watch, settings = self.settings["watch"], self.settings
        greedy = "memory" in watch and processes.memory() > settings["memory"]
        files = processes.files_in(settings["folders"]) if "files" in watch else 0
        for program in list(self.programs.values()):
            if greedy:
                self._end(program, "memory")
            elif files > max(settings["files"], program.files):  # unless an earlier program left them
                self._end(program, "killed")
            program.files = min(program.files, files)

    def _end(self, program: Program, reason: str) -> None:
        """Kill a program and all its descendants, and report its end."""
        if program.number not in self.programs:
            return
        os.kill(program.pid, signal.SIGKILL)  # only this process reaps it, so the id is still valid
        program.status = processes.wait_for(program.pid)
        self._bury(program, reason)

    def _reap(self) -> None:
        """Reap ended children: programs and orphans."""
        os.read(self.woken, PIECE)
        for pid, status in processes.ended():
            for program in list(self.programs.values()):
                if program.pid == pid:
                    program.status = status
                    self._bury(program, "killed" if program.kind == "kernel" or status < 0 else "exit")

    def _bury(self, program: Program, reason: str) -> None:
        """Kill what an ended program left, forward the rest of its output, and report its end."""
        del self.programs[program.number]
        for pid, status in self._end_rest(program, reason):
            for other in list(self.programs.values()):  # including any that ended meanwhile
                if other.pid == pid:
                    other.status = status
                    self._bury(other, "killed" if other.kind == "kernel" or status < 0 else "exit")
        for kind in (frames.OUT, frames.ERR):
            while not program.overflow and self._take(program, kind):
                pass
        for kind in list(program.streams):
            program.close(kind)
        if program.control >= 0:
            os.close(program.control)
            program.control = -1
        if program.overflow:
            reason = "output"
        elif reason in ("exit", "killed") and processes.kills() > program.starved:
            reason = "memory"
        seconds = time.monotonic() - program.started
        self._report(program.number, {"reason": reason, "status": program.status, "seconds": seconds})

    def _end_rest(self, program: Program, reason: str) -> list[tuple[int, int]]:
        """Kill a program's strays; return their ids and exit codes. In background mode, kill only an interrupted group."""
        if not self.settings["background"]:
            return processes.end_strays({other.pid for other in self.programs.values()})
        if reason not in ("exit", "killed") or program.overflow:
            with contextlib.suppress(OSError):
                os.killpg(program.pid, signal.SIGKILL)
        return []

    def _report(self, number: int, report: dict[str, object]) -> None:
        self.say(number, frames.END, json.dumps(report).encode())


def _heed(*_: object) -> None:
    """Do nothing on SIGCHLD: the wake-up file already reports the end of a child."""


def main(settings: dict[str, Any]) -> None:
    """Serve over the container's standard input and output, which no other process in the container has open."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a handler would let the signal through
    hear, tell = os.dup(0), os.dup(1)
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    system.prctl(system.DUMPABLE, 0)
    if settings["filter"] and settings["machine"] == os.uname().machine:
        system.filter_calls(bytes.fromhex(settings["filter"]))
    failed: dict[str, str] = {}
    for name in settings["preload"]:
        try:
            importlib.import_module(name)
        except BaseException as error:
            failed[name] = f"{type(error).__name__}: {error}"
    gc.collect()
    gc.freeze()  # keeps pages shared with every execution
    init = Init(settings, hear, tell)
    init.say(0, frames.END, json.dumps({"python": sys.version.split()[0], "failed": failed}).encode())
    init.serve()
