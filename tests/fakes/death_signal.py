"""What the kernel does to a process when its parent ends."""

import ctypes

ASK = 2  # PR_GET_PDEATHSIG


def death_signal() -> int:
    """Return the signal that this process gets when its parent ends; 0 if none."""
    number = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(ASK, ctypes.byref(number)) == 0
    return number.value
