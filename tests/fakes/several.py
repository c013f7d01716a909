"""Starts a script of this folder in several real processes that join by gloo."""

import socket

from forked import HERE, Program


def run_several(script, number, *arguments, seconds=400):
    """Run a script beside this file in so many processes; an error of any of them fails the test with what they said."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    shared = {
        "WORLD_SIZE": str(number),
        "LOCAL_WORLD_SIZE": str(number),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": port,
        "OMP_NUM_THREADS": "1",
    }
    running = [
        Program(HERE / script, *arguments, env={**shared, "RANK": str(rank), "LOCAL_RANK": str(rank)})
        for rank in range(number)
    ]
    try:
        ended = [program.wait(seconds) for program in running]
    finally:
        for program in running:
            program.process.kill()
    assert ended == [0] * number, "\n".join(program.output() for program in running)


def run_two(script, *arguments):
    """Run a script beside this file in two processes."""
    run_several(script, 2, *arguments)
