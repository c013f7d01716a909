"""What may be written to a terminal: text of worlds, models and files is hostile until it went through here."""


def printable(text: str) -> str:
    """Return text with everything replaced that could steer a terminal: control, format and surrogate characters."""
    return "".join(c if c == "\n" or c.isprintable() else f"\\x{ord(c):02x}" for c in text)
