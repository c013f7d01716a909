"""The filter of system calls that every program in a sandbox runs under."""

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
    *("memfd_create", "memfd_secret", "shmget", "msgget"),  # memory that no process and no file system is charged for
)
"""Calls that nothing a model has to run needs, and that most ways out of a sandbox begin with."""
NEW_USER = 0x10000000
FAMILIES = (socket.AF_UNIX, socket.AF_INET, socket.AF_INET6, socket.AF_NETLINK)
"""Kinds of sockets that a network namespace confines; others (vsock) reach what is around the machine."""
HIGHEST = 45


@cache
def denied_calls() -> bytes:
    """Return the filter as a BPF program: what is denied fails with EPERM, and everything else is allowed."""
    import pyseccomp  # pyright: ignore[reportMissingTypeStubs]

    call_filter = pyseccomp.SyscallFilter(defaction=pyseccomp.ALLOW)
    for name in DENIED:
        try:
            call_filter.add_rule(pyseccomp.ERRNO(errno.EPERM), name)
        except (RuntimeError, ValueError, OSError):
            continue  # a call that this processor or this version of libseccomp does not know
    call_filter.add_rule(pyseccomp.ERRNO(errno.ENOSYS), "clone3")  # its flags lie in memory, where no filter sees them
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
