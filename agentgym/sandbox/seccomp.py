"""The seccomp filter of every program in a sandbox."""

import errno
import os
import socket
import tempfile
from functools import cache

DENIED = (
    *("mount", "umount2", "pivot_root", "move_mount", "open_tree", "fsopen", "fsconfig", "fsmount", "fspick"),
    *("mount_setattr", "chroot", "unshare", "setns", "ptrace", "process_vm_readv", "process_vm_writev", "kcmp"),
    *("pidfd_getfd", "bpf", "perf_event_open", "userfaultfd", "keyctl", "add_key", "request_key", "init_module"),
    *("finit_module", "delete_module", "kexec_load", "kexec_file_load", "reboot", "swapon", "swapoff", "acct"),
    *("quotactl", "syslog", "settimeofday", "clock_settime", "adjtimex", "clock_adjtime", "open_by_handle_at"),
    *("name_to_handle_at", "lookup_dcookie", "nfsservctl", "io_uring_setup", "io_uring_enter", "io_uring_register"),
    *("personality", "iopl", "ioperm", "vhangup", "sethostname", "setdomainname", "fanotify_init", "vmsplice"),
    *("memfd_create", "memfd_secret", "shmget", "msgget"),  # memory charged to no process and no file system
)
"""System calls that model-written programs do not need and most sandbox escapes use."""
NEW_USER = 0x10000000
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Allowed socket families, which a network namespace confines; others, such as vsock, can reach the host."""
HIGHEST = 45


@cache
def denied_calls() -> bytes:
    """Return the filter as a BPF program: denied calls fail with EPERM, everything else is allowed."""
    import pyseccomp  # pyright: ignore[reportMissingTypeStubs]

    call_filter = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    for name in DENIED:
        try:
            call_filter.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (RuntimeError, ValueError, OSError):
            continue  # unknown to this processor or this version of libseccomp
    call_filter.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags are in memory, invisible to a filter
    call_filter.add_rule(pyseccomp.ERRNO(errno.EPERM), "clone", pyseccomp.Arg(0, pyseccomp.MASKED_EQ, NEW_USER, NEW_USER))
    refused = pyseccomp.ERRNO(errno.EAFNOSUPPORT)
    for family in set(range(HIGHEST + 1)) - set(FAMILIES):
        call_filter.add_rule(refused, "socket", pyseccomp.Arg(0, pyseccomp.EQ, family))
    call_filter.add_rule(refused, "socket", pyseccomp.Arg(0, pyseccomp.GT, HIGHEST))
    with tempfile.TemporaryFile() as file:
        call_filter.export_bpf(file)
        file.flush()
        os.lseek(file.fileno(), 0, os.SEEK_SET)
        return file.read()
