"""The wire format between a container's process 1 and its host. Runs inside, too: standard library only."""

import struct

HEAD = struct.Struct("!IBI")
"""Header of each frame: number of the execution, kind, length of the body."""
START, INPUT, STEP, CUT = 1, 2, 3, 4
"""To the container: start an execution (JSON), its input (empty: end of input), a step of a kernel, kill it."""
TIMEOUT = struct.Struct("!d")
"""Seconds, before the code of a step."""
LENGTH = struct.Struct("I")
"""Length prefix of a kernel's messages (`kernel.py`)."""
OUT, ERR, ANSWER, END = 5, 6, 7, 8
"""From the container: program output, how a step ended, and how the program ended (JSON)."""
CHUNK = 1 << 16
