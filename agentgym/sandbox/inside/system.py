"""Linux system calls that the standard library lacks. Also runs inside the sandbox: standard library only."""

import ctypes
import os
import resource
import signal
import socket
import struct
from collections.abc import Mapping
from fcntl import ioctl

NEW_MOUNTS, NEW_IPC, NEW_PIDS, NEW_NETWORK = 0x00020000, 0x08000000, 0x20000000, 0x40000000
READ_ONLY, NO_SUID, NO_DEVICES = 1, 2, 4
DEATH_SIGNAL, DUMPABLE, SECCOMP, DROP_BOUND, NO_NEW_PRIVILEGES, ADOPT, AMBIENT = 1, 4, 22, 24, 38, 36, 47

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def unshare(flags: int) -> None:
    """Move this process to new namespaces, selected by flags; raise OSError if the kernel refuses."""
    _checked(_libc.unshare(flags), "unshare")


def mount(kind: str, target: str, flags: int = 0, options: str = "") -> None:
    """Mount a file system (`tmpfs`, `proc`) on a folder, or change a mount's flags."""
    _checked(
        _libc.mount(kind.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode() or None),
        f"mount {kind} on {target}",
    )


def prctl(option: int, value: int = 0, more: int = 0) -> None:
    """Set an attribute of this process by the system call `prctl`."""
    zero = ctypes.c_ulong(0)
    _checked(_libc.prctl(option, ctypes.c_ulong(value), ctypes.c_ulong(more), zero, zero), f"prctl {option}")


def drop_capabilities() -> None:
    """Drop every capability, for this process and its children."""
    with open("/proc/sys/kernel/cap_last_cap", encoding="ascii") as file:
        last = int(file.read())
    for capability in range(last + 1):
        prctl(DROP_BOUND, capability)
    prctl(AMBIENT, 4)  # clear all
    header = struct.pack("Ii", 0x20080522, 0)
    _checked(_libc.capset(header, bytes(24)), "capset")


def filter_calls(program: bytes) -> None:
    """Load a seccomp filter (BPF instructions of eight bytes) for this process and its future children."""
    code = ctypes.create_string_buffer(program, len(program))
    head = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    prctl(NO_NEW_PRIVILEGES, 1)
    holder = ctypes.create_string_buffer(head, len(head))
    prctl(SECCOMP, 2, ctypes.addressof(holder))


def raise_loopback() -> None:
    """Bring up the loopback device of a new network namespace, so that programs can connect to each other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as endpoint:
        up_and_running = 0x1 | 0x40
        ioctl(endpoint.fileno(), 0x8914, struct.pack("16sh14x", b"lo", up_and_running))


def limit(limits: Mapping[str, int]) -> None:
    """Set soft and hard resource limits by name (`NOFILE`, `FSIZE`, …); a lower existing limit stays."""
    for name, value in limits.items():
        kind = getattr(resource, f"RLIMIT_{name}")
        hard = resource.getrlimit(kind)[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    prctl(DEATH_SIGNAL, signal.SIGKILL)
