"""Ways out of a sandbox of this machine, and ways to the machine's means, that the field's table of inputs does not hold.

As in `nasty.py`, whose shape they have; `{socket}` is the name of an abstract socket on which the tests listen.
"""

from nasty import EXIT, Nasty

CALLS = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
def call(name, number, *given):
    ctypes.set_errno(0)
    done = libc.syscall(number, *given)
    print(name, 'done' if done >= 0 else errno.errorcode[ctypes.get_errno()])
"""
FILL = """
def fill(make, write, rounds):
    kept = []
    try:
        for _ in range(rounds):
            kept.append(make()); write(kept[-1])
        print('all')
    except OSError as error: print('stopped')
"""

ESCAPES = (
    Nasty(
        "calls of 32 bits",
        "import ctypes, mmap\n"
        "code = mmap.mmap(-1, 4096, prot=7)\n"
        "code.write(bytes.fromhex('b836010000bb00000010cd80c3'))  # unshare(new user), past a filter of 64 bits alone\n"
        "run = ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(code)))\n"
        "print('made' if run() == 0 else 'refused')",
        ("exit", "killed"),
        never="made",
    ),
    Nasty(
        "calls of the x32 kind",
        CALLS + "call('unshare', 272 | 0x40000000, 0x10000000)",
        ("exit", "killed"),
        never="done",
    ),
    Nasty(
        "new namespaces by clone",
        CALLS + "import signal\nfor flags in (0x10000000, 0x10020000, 0x00020000, 0x40000000, 0x20000000, 0x02000000):\n"
        "    pid = libc.syscall(56, flags | signal.SIGCHLD, 0, 0, 0, 0)\n"
        "    if pid == 0: os._exit(0)\n"
        "    print('made' if pid > 0 else 'refused')\n"
        "call('clone3', 435, bytes([0, 0, 0, 16]) + bytes(84), 88)",
        says="ENOSYS",
        never="made",
    ),
    Nasty(
        "calls that most escapes begin with",
        CALLS
        + "for name, number in (('ptrace', 101), ('keyctl', 250), ('add_key', 248), ('request_key', 249), ('bpf', 321),\n"
        "    ('userfaultfd', 323), ('perf_event_open', 298), ('io_uring_setup', 425), ('open_by_handle_at', 304),\n"
        "    ('pidfd_getfd', 438), ('process_vm_readv', 310), ('kcmp', 312), ('setns', 308), ('pivot_root', 155),\n"
        "    ('chroot', 161), ('mount_setattr', 442), ('fsopen', 430), ('open_tree', 428), ('move_mount', 429),\n"
        "    ('init_module', 175), ('kexec_load', 246), ('personality', 135), ('reboot', 169), ('swapon', 167),\n"
        "    ('memfd_create', 319), ('memfd_secret', 447), ('shmget', 29), ('msgget', 68)):\n"
        "    call(name, number, 0, 0, 0, 0, 0)\nprint('end')",
        says="end",
        never="done",
    ),
    Nasty(
        "sockets that no namespace confines",
        "import socket\nfor family in (40, 38, 17, 16, 29, 31, 30, 44, 43, 15):\n"
        "    for kind in (1, 2, 3, 5):\n"
        "        try:\n"
        "            socket.socket(family, kind).close()\n"
        "            if family != 16: print('made', family, kind)\n"
        "        except OSError: pass\nprint('end')",
        says="end",
        never="made",
    ),
    Nasty(
        "an abstract socket of the host",
        "import socket\ns = socket.socket(socket.AF_UNIX)\n"
        "try:\n    s.connect('\\0{socket}')\n    print('connected')\nexcept OSError: print('refused')",
        says="refused",
        never="connected",
    ),
    Nasty(
        "files and memory of its init",
        "import os\nfor name in ('fd', 'root', 'cwd', 'exe', 'mem', 'maps', 'environ', 'auxv', 'task/1/mem', 'ns/user', "
        "'map_files'):\n"
        "    path = '/proc/1/' + name\n"
        "    try:\n"
        "        if name in ('root', 'cwd', 'exe', 'ns/user'): found = os.readlink(path)\n"
        "        elif name in ('fd', 'map_files'): found = os.listdir(path)\n"
        "        else: found = open(path, 'rb').read(10)\n"
        "        print('found', name, found)\n"
        "    except OSError: pass\nprint('end')",
        says="end",
        never="found",
    ),
    Nasty(
        "limits and priorities of its own",
        "import os, resource\nfor name in ('NPROC', 'NOFILE', 'FSIZE', 'CORE', 'MEMLOCK'):\n"
        "    kind = getattr(resource, 'RLIMIT_' + name)\n"
        "    try: resource.setrlimit(kind, (1 << 30, 1 << 30)); print('raised', name)\n"
        "    except (OSError, ValueError): pass\n"
        "try: os.nice(-5); print('raised priority')\nexcept OSError: pass\n"
        "try: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)); print('raised class')\nexcept OSError: pass\n"
        "for path in ('/proc/self/oom_score_adj', '/proc/self/coredump_filter', '/proc/self/uid_map', "
        "'/proc/self/loginuid',\n"
        "             '/proc/sys/kernel/core_pattern', '/proc/sys/kernel/shmmax', '/proc/sys/net/ipv4/ip_forward'):\n"
        "    try: open(path, 'w').write('0'); print('raised', path)\n"
        "    except OSError: pass\nprint('end')",
        says="end",
        never="raised",
    ),
    Nasty(
        "memory in pipes",
        FILL + "import os\ndef write(pipe):\n    os.set_blocking(pipe[1], False)\n"
        "    try:\n        import fcntl; fcntl.fcntl(pipe[1], 1031, 1 << 20)\n    except OSError: pass\n"
        "    try: os.write(pipe[1], bytes(1 << 20))\n    except BlockingIOError: pass\n"
        "fill(os.pipe, write, 5000)",
        ("exit", "memory", "killed"),
        never="all",
    ),
    Nasty(
        "memory in sockets on their way through each other",
        FILL + "import os, socket\ndef pair():\n    a, b = socket.socketpair(); a.setblocking(False); return a, b\n"
        "def write(pair):\n"
        "    try:\n        while True: pair[0].send(bytes(1 << 16))\n    except BlockingIOError: pass\n"
        "    a, b = socket.socketpair(); socket.send_fds(a, [b'x'], [pair[0].fileno(), pair[1].fileno(), b.fileno()])\n"
        "fill(pair, write, 5000)",
        ("exit", "memory", "killed"),
        never="all",
    ),
    Nasty(
        "memory shared by all of a tree",
        "import mmap, os, time\nkept = mmap.mmap(-1, 1 << 30)\nfor place in range(0, 1 << 30, 4096): kept[place] = "
        "1\nprint('all')",
        ("memory", "killed"),
        never="all",
    ),
    Nasty(
        "endless arguments",
        "import subprocess\ntry: subprocess.run(['true', *['x' * 100_000] * 100]); print('all')\nexcept OSError as e: "
        "print(e.errno)",
        says="7",
    ),
    Nasty(
        "forks while it ends",
        "import os, time\nfor _ in range(6):\n    if not os.fork():\n"
        "        while True:\n            try: os.fork() and os._exit(0)\n            except OSError: pass\nprint('left')",
        ("exit", "killed", "memory"),
    ),
    Nasty(
        "writes after its end",
        "import os, time\nif not os.fork():\n    while True: os.write(1, b'x' * 1000)\nprint('end', flush=True)",
        ("exit", "output"),
    ),
    Nasty(
        "stops and kills its init",
        "import os, signal, time\nfor number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL, "
        "signal.SIGCHLD):\n"
        "    try: os.kill(1, number)\n    except OSError: pass\ntime.sleep(0.1)\nprint('goes on')",
        says="goes on",
    ),
    Nasty(
        "hands its streams to those it leaves",
        "import os, socket\na, b = socket.socketpair()\nsocket.send_fds(a, [b'x'], [1, 2])\n"
        "if not os.fork():\n    os.setsid()\n    socket.recv_fds(b, 1, 2)\n    import time; time.sleep(60)\nprint('end')",
        says="end",
    ),
    Nasty(
        "secrets of the machine in /proc and /sys",
        "import os\nfor path in ('/proc/kcore', '/proc/kmsg', '/proc/keys', '/proc/timer_list', '/proc/vmallocinfo', "
        "'/sys/firmware',\n"
        "             '/sys/kernel/security', '/sys/fs/cgroup', '/proc/1/cgroup', '/var/log', '/run', '/boot'):\n"
        "    try:\n"
        "        found = os.listdir(path) if os.path.isdir(path) else open(path, 'rb').read(100)\n"
        "        if found and path not in ('/proc/1/cgroup', '/proc/keys'): print('found', path, found)\n"
        "    except OSError: pass\nprint('end')",
        EXIT,
        says="end",
        never="found",
    ),
    Nasty(
        "a terminal to type into",
        "import fcntl, os\ntry: print('found', os.open('/dev/tty', os.O_RDWR))\nexcept OSError: pass\n"
        "for number in range(3):\n    try: fcntl.ioctl(number, 0x5412, b'x'); print('typed')\n    except OSError: "
        "pass\nprint('end')",
        says="end",
        never="typed",
    ),
)
