"""What a container's process 1 and its host say to one another. Runs inside too: standard library only."""

import struct

HEAD = struct.Struct("!IBI")
"""Of each frame: number of the execution, kind, length of what follows."""
START, INPUT, STEP, CUT = 1, 2, 3, 4
"""To the container: start an execution (JSON), its input (nothing: the end of it), a step of a kernel, end it."""
TIMEOUT = struct.Struct("!d")
"""Seconds, before the code of a step."""
LENGTH = struct.Struct("I")
"""Before what a kernel hears and answers (`kernel.py`)."""
OUT, ERR, ANSWER, END = 5, 6, 7, 8
"""From it: what the program printed, how a step ended and how the program ended (JSON)."""
CHUNK = 1 << 16
