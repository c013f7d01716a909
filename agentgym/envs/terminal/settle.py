"""Detect changes to the folder after a command, and make modification times independent of the machine's clock."""

import json
from dataclasses import replace

from agentgym.sandbox.protocol import Program, Result, SandboxFault
from agentgym.sandbox.working_folder import packed

_LINE = 65_536
"""Maximum bytes of output: a fingerprint and an error message."""

_SETTLE = """
import sys
sys.path.pop(0)  # the agent's folder
import hashlib, os, stat, time
since, clock, until = {since}, {clock}, time.time() + 5
seen = hashlib.blake2b(digest_size=16)
left = ['.']
try:  # the folder itself is in no snapshot: closed, nothing would run in it, and in the next episode it would be as it is
    if stat.S_IMODE(os.stat(os.getcwd()).st_mode) != 0o700:
        os.chmod(os.getcwd(), 0o700)
except OSError:  # of a backend whose folder is somebody else's
    pass
while left:
    path, found = left.pop(), None
    try:
        found = os.lstat(path)
        if since <= found.st_mtime <= until:
            os.utime(path, (clock, clock), follow_symlinks=False)
            found = os.lstat(path)
        if stat.S_ISDIR(found.st_mode):
            left += [path + '/' + name for name in sorted(os.listdir(path))]
    except OSError:  # in a folder that is closed to its owner, or too deep
        continue
    finally:
        told = [path]
        if found is not None:
            told += [found.st_ino, found.st_mode, found.st_size, found.st_mtime_ns, found.st_ctime_ns]
        seen.update(repr(told).encode('utf-8', 'surrogatepass'))
print(seen.hexdigest())
"""


def settling(since: float, clock: int) -> Program:
    """Return a program that normalizes modification times and prints a fingerprint of the folder's state.

    Files and folders modified after `since` get the time `clock` (both in seconds since 1970), so `ls -l` prints the same
    on every day. The fingerprint includes the change times (ctime), which programs cannot set, so it differs after any
    change.
    """
    return Program(code=_SETTLE.format(since=json.dumps(since), clock=clock), room=_LINE)


def settled(result: Result) -> str:
    """Return the fingerprint that `settling` printed.

    Raises:
        SandboxFault: the folder could not be scanned.
    """
    if not result.ok:
        raise SandboxFault(f"the folder could not be looked through ({result.reason}): {result.text[-300:]}")
    return result.stdout.decode().strip()


def looking(since: float, clock: int, seen: str, packing: Program) -> Program:
    """Return the program of `settling`, followed by `packing` if the fingerprint differs from `seen`."""
    code = settling(since, clock).code
    return Program(
        code=f"{code}sys.stdout.flush()\nif seen.hexdigest() != {seen!r}:\n    exec({packing.code!r})\n",
        room=packing.room + _LINE,
    )


def looked(result: Result, packing: Program) -> tuple[str, bytes]:
    """Return the fingerprint that `looking` printed, and the packed folder, which is empty if nothing has changed.

    Raises:
        OSError: the folder could not be packed.
        SandboxFault: the folder could not be scanned.
    """
    line, _, archive = result.stdout.partition(b"\n")
    if not line and not result.ok:
        settled(result)
    return line.decode(), packed(replace(result, stdout=archive), packing.room)
