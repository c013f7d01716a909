"""Follow runs live, on a page in the browser or in this terminal.

agentgym watch runs/demo --open                    curves, the newest groups turn by turn, infrastructure errors
agentgym watch runs/a runs/b runs/c                three runs, with their curves in the same charts
agentgym watch runs/demo --terminal                without a browser, over ssh
AGENTGYM_TOKEN=… agentgym watch runs/demo --host 0.0.0.0       for other machines, with the printed address

The run does not have to exist yet: the page waits for it. To keep a page of a finished run, use `agentgym view`.
"""

import errno
import os
import subprocess
import threading
import webbrowser
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from rich.console import Console

from agentgym.cli.serve_env import check_port
from agentgym.core.beside import python
from agentgym.core.screen import printable
from agentgym.errors import BadConfig
from agentgym.options import Positional
from agentgym.report.watch.run import FollowedRun
from agentgym.report.watch.server import PageServer, Watch, new_token
from agentgym.serving.server import loopback, terminated_as_interrupted
from agentgym.trainers.run.launch import LAUNCHER, end_with_launcher

PORT = 8420
"""Default port of the page, tried first."""
MOST_RUNS = 16
ENDS = " (Ctrl-C ends)"


@dataclass(frozen=True)
class Config:
    """Options of `agentgym watch`."""

    runs: Positional[tuple[str, ...]]
    """Folders of runs or evaluations, or files of episodes."""
    terminal: bool = False
    """Show the runs in this terminal instead of the browser; print them once if the output is not a terminal."""
    open: bool = False
    """Open the page in the browser."""
    host: str = "127.0.0.1"
    """Address to listen on. Any other than a loopback address needs a token: the environment variable
    AGENTGYM_TOKEN, or a random token that is printed."""
    port: int | None = None
    """Port to listen on; 0 takes a free one. Default: 8420, or a free one if that is taken."""
    seconds: float = 2.0
    """Seconds between updates with --terminal; the page in the browser updates every two seconds."""


def run(config: Config) -> int:
    """Follow the runs until Ctrl-C or SIGTERM."""
    end_with_launcher()
    runs = followed(config)
    console = Console(highlight=False)
    if config.terminal:
        from agentgym.report.watch.terminal import show

        with suppress(KeyboardInterrupt), terminated_as_interrupted():
            show(runs, console, config.seconds)
        return 0
    token = None if loopback(config.host) else os.environ.get("AGENTGYM_TOKEN") or new_token()
    try:
        with _server(config, Watch(runs), token) as server, terminated_as_interrupted():
            names = ", ".join(str(run.path) for run in runs)
            console.print(printable(f"watching {names} at {server.address}{ENDS}"), markup=False, soft_wrap=True)
            if config.open:  # in a thread, since some browsers only return when they are closed
                threading.Thread(target=_open, args=(server.address, console), daemon=True).start()
            server.serve_forever(poll_interval=1.0)
    except KeyboardInterrupt:
        console.print("\nended")
    return 0


def _open(address: str, console: Console) -> None:
    if not webbrowser.open(address):
        console.print("no browser could be started here: open the address yourself")


@contextmanager
def beside(folder: str, console: Console) -> Generator[None]:
    """Serve a run's page during the `with` block, in a separate process that does not slow training."""
    command = [*python(), "-m", "agentgym", "watch", folder]
    environment = {**os.environ, LAUNCHER: str(os.getpid())}
    ends: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "start_new_session": True}
    with subprocess.Popen(command, env=environment, **ends) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            line = process.stdout.readline().decode(errors="replace").strip().removesuffix(ENDS)
            console.print(printable(line or "the page could not be served"), markup=False, soft_wrap=True)
            yield
        finally:
            process.stdin.close()  # this ends the page's process, as does the end of this process


def followed(config: Config) -> list[FollowedRun]:
    """Return the runs named on the command line, after checking each.

    Raises:
        BadConfig: an option is invalid, or a path is not a run.
    """
    if not config.runs:
        raise BadConfig("name at least one run: agentgym watch runs/demo")
    if len(config.runs) > MOST_RUNS:
        raise BadConfig(f"{len(config.runs)} runs; one page can show at most {MOST_RUNS}")
    if not 0.1 <= config.seconds <= 3600:
        raise BadConfig(f"--seconds is {config.seconds:g}; expected 0.1 to 3600")
    if config.port is not None:
        check_port(config.port)
    if config.terminal and (config.open or config.port is not None):
        raise BadConfig("--terminal shows no page: remove --open and --port")
    runs = [FollowedRun(path) for path in config.runs]
    for run in runs:
        run.check()
    return runs


def _server(config: Config, watch: Watch, token: str | None) -> PageServer:
    try:
        return PageServer(watch, config.host, PORT if config.port is None else config.port, token)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise BadConfig(f"--host {config.host}: {error.strerror or error}") from error
        if config.port is not None:
            raise BadConfig(f"port {config.port} is taken: choose another --port, or 0 for a free one") from error
    return PageServer(watch, config.host, 0, token)
