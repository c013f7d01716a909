"""The wire format between a container's process 1 and the host. Also runs in the container: standard library only."""

import struct

HEAD = struct.Struct("!IBI")
"""Header of each frame: number of the execution, kind, length of the body."""
START, INPUT, STEP, CUT = 1, 2, 3, 4
"""Kinds of frames to the container: start an execution (JSON), input (empty: end of input), kernel step, kill."""
TIMEOUT = struct.Struct("!d")
"""Prefix of a kernel step's code: the time limit in seconds."""
LENGTH = struct.Struct("I")
"""Length prefix of a kernel's messages (`kernel.py`)."""
OUT, ERR, ANSWER, END = 5, 6, 7, 8
"""Kinds of frames from the container: standard output, standard error, end of a kernel step, end of the program (JSON)."""
CHUNK = 1 << 16
