"""Seeds derived from names, so that randomness does not depend on the order of events."""

import hashlib

import numpy as np


def derive(*parts: object) -> int:
    """Return a 63-bit seed that depends only on the parts (strings, numbers, None)."""
    text = "\x1f".join(f"{type(part).__name__}:{part}" for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1


def generator(*parts: object) -> np.random.Generator:
    """Return a new random generator whose seed depends only on the parts."""
    return np.random.Generator(np.random.PCG64(derive(*parts)))


def share(*parts: object) -> float:
    """Return a number in [0, 1) that depends only on the parts."""
    return derive(*parts) / 2.0**63
