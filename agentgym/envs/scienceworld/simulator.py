"""Java virtual machines that run the simulator; the environments of a process share a few of them."""

import atexit
import importlib
import importlib.util
import os
import shutil
import threading
import weakref
from collections.abc import Generator
from contextlib import contextmanager, suppress
from typing import Any

from agentgym.errors import Fault, MissingExtra, Reason, how_to_install

MOST = 4
"""Maximum number of machines per process. Beyond it, an idle environment loses its machine and later replays its actions."""
MEMORY = "512m"
"""Heap size of one machine."""
REPEATABLE = ("-XX:+UnlockExperimentalVMOptions", "-XX:hashCode=2")
"""Java options that make object hashes deterministic, because the simulator lists objects in the order of hash sets."""
START, LOAD, STEP = 120.0, 120.0, 30.0
"""Time limits in seconds for starting a machine, setting up a task, and an action."""
REFUSED = ("No known action matches that input.", "Unknown action.")
QUESTION = "Ambiguous request"


def refused(text: str, before: str) -> bool:
    """Return True if an answer says that the action was not understood; such an action changes nothing.

    If `before`, the previous answer, asked a question, the action may have changed that question: the result is False.
    """
    return text.startswith(REFUSED) and not before.startswith(QUESTION)


def check_installed() -> None:
    """Check that the `scienceworld` package and Java are installed.

    Raises:
        MissingExtra: the package or Java is missing.
    """
    if importlib.util.find_spec("scienceworld") is None:
        raise MissingExtra(
            f"rlvr/ScienceWorld-v0 plays the tasks of the scienceworld package: {how_to_install('scienceworld')}"
        )
    if shutil.which("java") is None:
        raise MissingExtra("rlvr/ScienceWorld-v0 needs Java (1.8 or newer) and found none: apt install default-jre-headless")


class Simulator:
    """One virtual machine with one simulator, which plays one episode at a time, since its random state is global."""

    def __init__(self) -> None:
        gateway = importlib.import_module("py4j.java_gateway")
        package = importlib.import_module("scienceworld.constants")
        self.lock = threading.Lock()
        self.owner: weakref.ref[object] | None = None
        self.used = 0
        self.played: tuple[Any, list[str]] = (None, [])
        """The task in the simulator, and the actions performed in it."""
        options = [f"-Xmx{MEMORY}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xss8m", *REPEATABLE]
        port, token, self.process = gateway.launch_gateway(
            classpath=package.JAR_PATH,
            cwd=package.BASEPATH,
            javaopts=options,
            die_on_exit=True,
            return_proc=True,
            enable_auth=True,
        )
        parameters = gateway.GatewayParameters(
            port=port,
            auth_token=token,
            auto_field=True,
            enable_memory_management=False,  # otherwise garbage collection contacts the machine, even a dead one
        )
        self._gateway = gateway.JavaGateway(gateway_parameters=parameters, java_process=self.process)
        self._api = self.call(START, lambda: self._gateway.jvm.scienceworld.runtime.pythonapi.PythonInterface())

    def set_up(self, key: tuple[object, ...], log: list[str]) -> str | None:
        """Load the task `key` and perform the actions of `log`; skip what the simulator has already done.

        Return the text after the last action, or None if no action had to be performed.
        """
        known, played = self.played
        text: str | None = None
        if known != key or played != log[: len(played)]:
            self.played = (None, [])
            self.ask(LOAD, "load", *key, False)
            self.played = (key, [])
        for action in log[len(self.played[1]) :]:
            text = str(self.ask(STEP, "step", action)).strip()
            self.played[1].append(action)
        return text

    def call(self, seconds: float, ask: Any) -> Any:
        """Return the result of `ask()`, waiting at most `seconds`.

        Raises:
            Fault: the call took too long or failed; the machine is stopped.
        """
        late = threading.Event()

        def give_up() -> None:
            late.set()
            self.process.kill()

        watch = threading.Timer(seconds, give_up)
        watch.daemon = True
        watch.start()
        try:
            return ask()
        except Exception as error:  # py4j raises its own, Java's and socket errors
            self.end()
            if late.is_set():
                raise Fault(f"ScienceWorld took longer than {seconds:g} s", reason=Reason.TIMEOUT) from None
            raise Fault(f"ScienceWorld broke down: {str(error)[:300]}", reason=Reason.CRASH) from error
        finally:
            watch.cancel()

    def ask(self, seconds: float, name: str, *arguments: object) -> Any:
        """Call a method of the simulator and return its result; raise Fault like `call`."""
        return self.call(seconds, lambda: getattr(self._api, name)(*arguments))

    def alive(self) -> bool:
        """Return True if the machine is running."""
        return self.process.poll() is None

    def free(self) -> bool:
        """Return True if no environment owns the machine."""
        return self.owner is None or self.owner() is None

    def end(self) -> None:
        """Stop the machine."""
        self.process.kill()
        self.process.wait()
        with suppress(Exception):
            self._gateway.close()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            with suppress(Exception):
                pipe.close()


_machines: list[Simulator] = []
_lock = threading.Lock()
_clock = iter(range(1, 2**62))


@contextmanager
def lent(env: object) -> Generator[Simulator]:
    """Yield a machine that `env` may use for one step; `machine.played` says which task and actions are in it."""
    machine = _found(env)
    try:
        yield machine
    finally:
        machine.used = next(_clock)
        machine.lock.release()


def _found(env: object) -> Simulator:
    """Return a locked machine: the environment's own, a free or new machine, or the machine idle for the longest time."""
    while True:
        with _lock:
            _machines[:] = [machine for machine in _machines if machine.alive()]
            own = next((m for m in _machines if m.owner is not None and m.owner() is env), None)
            free = [m for m in _machines if m.free() and not m.lock.locked()]
            if own is None and not free and len(_machines) < MOST:
                free = [Simulator()]
                _machines.extend(free)
            idle = sorted((m for m in _machines if not m.lock.locked()), key=lambda m: m.used)
            machine = own or next(iter(free or idle), None)
            if machine is not None and machine.lock.acquire(blocking=False):
                machine.owner = weakref.ref(env)
                return machine
        with (machine or _machines[0]).lock:  # all are busy: wait for one
            pass


def give_back(env: object) -> None:
    """Take back an environment's machine. At most one free machine stays, for the next environment."""
    with _lock:
        for machine in _machines:
            if machine.owner is not None and machine.owner() is env:
                machine.owner = None
        free = [m for m in _machines if m.free() and not m.lock.locked()]
        for machine in free[1:]:
            _machines.remove(machine)
            machine.end()


def end_all() -> None:
    """Stop all machines of this process."""
    with _lock:
        for machine in _machines:
            machine.end()
        _machines.clear()


def _forget() -> None:
    """Reset a forked process: the machines and connections belong to the parent.

    The objects are kept, because closing them would contact a machine that the parent is using.
    """
    global _lock
    _others.extend(_machines)
    _machines.clear()
    _lock = threading.Lock()


_others: list[Simulator] = []
atexit.register(end_all)
os.register_at_fork(after_in_child=_forget)
