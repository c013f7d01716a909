"""Programs that a sandbox has to bear: what each does, and how it has to end in a sandbox that holds.

`ends`: the reasons it may end with. `says`, `never`: what it prints, or must not. In every case the sandbox answers in time,
goes on working, and nothing of the program is left (the tests look for `MARK`).
"""

import os
from dataclasses import dataclass

MARK = f"agentgym-nasty-{os.getpid()}"
"""Of this run alone: others may run the same tests on this machine."""
EXIT = ("exit",)


@dataclass(frozen=True)
class Nasty:
    name: str
    code: str
    ends: tuple[str, ...] = EXIT
    says: str = ""
    never: str = ""


# A child that shows by its command line whose it is.
SLEEPER = f"import subprocess, sys; subprocess.Popen(['/bin/sh', '-c', 'sleep 60; : {MARK}']"

PROGRAMS = (
    # Too much of something
    Nasty(
        "fork bomb",
        "import os\ntry:\n    while True:\n        if not os.fork():\n            import time; time.sleep(60)\n"
        "except OSError as e:\n    print('stopped')",
        ("exit", "killed", "memory"),
    ),
    Nasty(
        "thread bomb",
        "import threading, time\ntry:\n    for i in range(5000): threading.Thread(target=time.sleep, args=(60,), "
        "daemon=True).start()\n"
        "    print('all')\nexcept (RuntimeError, MemoryError): print('stopped')\nimport os; os._exit(0)",
        ("exit", "killed", "memory", "timeout"),
        never="all",
    ),
    Nasty(
        "open files",
        "try:\n    kept = [open('/dev/null') for _ in range(9999)]\n    print('all')\nexcept OSError: print('stopped')",
        says="stopped",
    ),
    Nasty(
        "300 daemons",
        f"{SLEEPER}, start_new_session=True)\n"
        + f"try:\n    for _ in range(300): {SLEEPER[23:]}, start_new_session=True)\nexcept OSError: print('stopped')",
        ("exit", "killed"),
    ),
    Nasty("memory", "kept = []\nwhile True: kept.append(bytearray(b'x') * (16 << 20))", ("exit", "memory", "killed")),
    Nasty(
        "memory of a tree",
        "import os, time\nfor _ in range(12):\n    if not os.fork():\n        kept = bytearray(b'x') * (60 << 20)\n       "
        " time.sleep(60)\ntime.sleep(3)",
        ("memory", "killed"),
    ),
    Nasty(
        "fill the folder",
        "try:\n    with open('big', 'wb') as f:\n        for _ in range(600): f.write(bytes(1 << 20))\n    "
        "print('all')\nexcept OSError: print('stopped')",
        ("exit", "killed", "memory"),
        never="all",
    ),
    Nasty(
        "fill /tmp",
        "try:\n    with open('/tmp/big', 'wb') as f:\n        for _ in range(600): f.write(bytes(1 << 20))\n    "
        "print('all')\nexcept OSError: print('stopped')",
        ("exit", "killed", "memory"),
        never="all",
    ),
    Nasty(
        "fill /dev/shm",
        "try:\n    for i in range(60):\n        with open(f'/dev/shm/{i}', 'wb') as f: f.write(bytes(10 << 20))\n    "
        "print('all')\nexcept OSError: print('stopped')",
        ("exit", "killed", "memory"),
        never="all",
    ),
    Nasty(
        "50,000 files",
        "try:\n    for i in range(50_000): open(f'f{i}', 'w').close()\n    print('all')\nexcept OSError: print('stopped')",
        says="stopped",
        never="all",
    ),
    Nasty("endless output", "while True: print('x' * 1000)", ("output",)),
    Nasty("one line of 200 MB", "import sys\nsys.stdout.write('x' * (200 << 20))", ("output", "memory", "killed")),
    Nasty("endless errors", "import sys\nwhile True: sys.stderr.write('x' * 1000)", ("output",)),
    # Odd output and odd ends
    Nasty("not UTF-8", "import sys\nsys.stdout.buffer.write(bytes(range(256)))\nprint('end')", says="end"),
    Nasty("closed output", "import os\nos.close(1); os.close(2)", ("exit", "killed")),
    Nasty("stops itself", "import os, signal\nos.kill(os.getpid(), signal.SIGSTOP)", ("timeout",)),
    Nasty(
        "ignores signals",
        "import signal, time\nfor n in range(1, 65):\n    try: signal.signal(n, signal.SIG_IGN)\n    except (OSError, "
        "ValueError): pass\nwhile True: time.sleep(1)",
        ("timeout",),
    ),
    Nasty("sleeps", "import time\ntime.sleep(60)", ("timeout",)),
    Nasty("loops in C", "sum(range(10 ** 12))", ("timeout",)),
    Nasty("recursion", "def f(): f()\nf()", says="RecursionError"),
    Nasty("segmentation fault", "import ctypes\nctypes.string_at(0)", ("killed",)),
    Nasty("quits at once", "import os\nos._exit(3)"),
    # Outside the sandbox
    Nasty(
        "a hidden file",
        "try: print(open('{secret}').read())\nexcept OSError: print('not there')",
        says="not there",
        never="hidden answer",
    ),
    Nasty(
        "a link to a hidden file",
        "import os\nos.symlink('{secret}', 'link')\ntry: print(open('link').read())\nexcept OSError: print('not there')",
        says="not there",
        never="hidden answer",
    ),
    Nasty("the environment", "import os\nprint(os.environ)", never="hidden answer"),
    Nasty(
        "environments of others",
        "import glob\nfor path in glob.glob('/proc/[0-9]*/environ'):\n    try: print(open(path).read())\n    except "
        "OSError: pass",
        never="hidden answer",
    ),
    Nasty(
        "the package and its answers",
        "import sys, glob\nprint(glob.glob('{package}/envs/*'))\ntry:\n    import agentgym\n    print('imported')\nexcept "
        "ImportError: print('not there')",
        says="[]",
        never="imported",
    ),
    Nasty(
        "a daemon",
        f"import os\nif not os.fork():\n    os.setsid()\n    if not os.fork():\n        os.execl('/bin/sh', 'sh', '-c', "
        f"'sleep 60; : {MARK}')\n    os._exit(0)\nprint('left')",
        says="left",
    ),
    Nasty("a daemon that holds the output", f"{SLEEPER})\nprint('left')", says="left"),
    Nasty(
        "kills its parent",
        "import os, signal, time\ntry: os.kill(os.getppid(), signal.SIGKILL)\nexcept OSError as e: "
        "print(e)\ntime.sleep(0.1)\nprint('goes on')",
        says="goes on",
    ),
    Nasty("kills all it can", "import os, signal\nos.kill(-1, signal.SIGKILL)\nprint('goes on')", ("exit", "killed")),
    Nasty(
        "traces its parent",
        "import ctypes, os\nlibc = ctypes.CDLL(None, use_errno=True)\nprint('attached' if libc.ptrace(16, os.getppid(), "
        "0, 0) == 0 else 'refused')\n"
        "try:\n    open(f'/proc/{os.getppid()}/mem', 'rb+').close()\n    print('attached')\nexcept OSError: "
        "print('refused')",
        says="refused\nrefused",
        never="attached",
    ),
    Nasty(
        "new user namespace",
        "import ctypes\nlibc = ctypes.CDLL(None)\nprint('made' if libc.unshare(0x10000000) == 0 else 'refused')\nimport "
        "os, subprocess\nprint(subprocess.run(['unshare', '-Ur', 'true'], stderr=subprocess.DEVNULL).returncode != 0)",
        says="refused\nTrue",
        never="made",
    ),
    Nasty(
        "a port of the host",
        "import socket\ntry:\n    socket.create_connection(('127.0.0.1', {port}), 2)\n    print('connected')\nexcept "
        "OSError: print('refused')",
        says="refused",
        never="connected",
    ),
    Nasty(
        "the network",
        "import socket\ntry:\n    socket.create_connection(('192.0.2.1', 80), 2)\n    print('connected')\nexcept OSError "
        "as e: print('refused')",
        says="refused",
    ),
    Nasty(
        "talks to itself",
        "import socket\ns = socket.create_server(('127.0.0.1', 0))\nc = "
        "socket.create_connection(s.getsockname())\nprint('heard')",
        says="heard",
    ),
    Nasty(
        "writes to the system",
        "for path in ('/usr/x', '/etc/x', '/x', '/dev/x', '/opt/agentgym/fork_server.py', '/proc/sys/kernel/hostname', "
        "'/proc/sysrq-trigger'):\n    try:\n        open(path, 'a').write('x')\n        print('written', path)\n    "
        "except OSError: pass\nprint('end')",
        says="end",
        never="written",
    ),
    Nasty(
        "raw devices",
        "import os, stat\nfor name in ('sda', 'vda', 'mem', 'kmsg', 'loop0', 'kvm', 'fuse'):\n    try:\n        "
        "open('/dev/' + name, 'rb').read(1)\n        print('read', name)\n    except OSError: pass\ntry:\n    "
        "os.mknod('/tmp/disk', 0o666 | stat.S_IFBLK, os.makedev(254, 0))\n    print('made')\nexcept OSError: "
        "pass\nprint('end')",
        says="end",
        never="made",
    ),
    Nasty(
        "mounts",
        "import ctypes\nlibc = ctypes.CDLL(None)\nprint('mounted' if libc.mount(b'tmpfs', b'/tmp', b'tmpfs', 0, None) == "
        "0 else 'refused')\nprint('unmounted' if libc.umount2(b'/tmp', 2) == 0 else 'refused')",
        says="refused\nrefused",
    ),
    Nasty(
        "set-user-id",
        "import os, subprocess\nprint(subprocess.run(['su', '-c', 'id'], stdin=subprocess.DEVNULL, "
        "stderr=subprocess.DEVNULL, stdout=subprocess.PIPE).stdout)\ntry:\n    os.setuid(0)\n    print('root')\nexcept "
        "OSError: print('end')",
        says="end",
        never="root",
    ),
    Nasty(
        "the supervisor's files",
        "import os\nfound = []\nfor n in range(3, 300):\n    try: found.append(os.readlink(f'/proc/self/fd/{n}'))\n    "
        "except OSError: pass\nprint(found)",
        says="[]",
    ),
)
