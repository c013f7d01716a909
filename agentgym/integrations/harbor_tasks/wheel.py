"""The installed package as a wheel, for images that cannot install it from a package index."""

import base64
import hashlib
import io
import re
import zipfile
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution, version
from pathlib import Path

import agentgym
from agentgym.errors import DISTRIBUTION, BadConfig

_LONG_AGO = (2024, 1, 1, 0, 0, 0)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_WHEEL = "Wheel-Version: 1.0\nGenerator: agentgym\nRoot-Is-Purelib: true\nTag: py3-none-any\n"


@cache
def wheel() -> tuple[str, bytes]:
    """Return the name and content of a wheel of the installed package; equal packages give equal bytes.

    Raises BadConfig if the package has no installed metadata, because its requirements are then unknown.
    """
    root = Path(agentgym.__file__).parent
    stem = f"{DISTRIBUTION.replace('-', '_')}-{agentgym.__version__}"
    files = {
        path.relative_to(root.parent).as_posix(): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }
    files |= {f"{stem}.dist-info/METADATA": _metadata().encode(), f"{stem}.dist-info/WHEEL": _WHEEL.encode()}
    rows = [f"{name},sha256={_digest(content)},{len(content)}\n" for name, content in files.items()]
    record = f"{stem}.dist-info/RECORD"
    files[record] = "".join([*rows, f"{record},,\n"]).encode()
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            entry = zipfile.ZipInfo(name, _LONG_AGO)
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, content, zipfile.ZIP_DEFLATED)
    return f"{stem}-py3-none-any.whl", buffer.getvalue()


def requirements(*extras: str) -> str:
    """Return the lines of a requirements file for the package and its extras, in the versions installed here."""
    lines: list[str] = []
    for line in distribution(DISTRIBUTION).requires or ():
        requirement, _, condition = (part.strip() for part in line.partition(";"))
        extra = re.search(r"extra == [\"']([^\"']+)", condition)
        if extra is None or extra[1] in extras:
            lines.append(pinned(requirement))
    return "".join(f"{line}\n" for line in dict.fromkeys(lines))


def pinned(requirement: str) -> str:
    """Return a requirement pinned to the version installed here; unchanged if it is not installed."""
    name = _NAME.match(requirement)
    try:
        return f"{name[0]}=={version(name[0])}" if name else requirement
    except PackageNotFoundError:
        return requirement


def _metadata() -> str:
    try:
        installed = distribution(DISTRIBUTION)
        return installed.read_text("METADATA") or installed.read_text("PKG-INFO") or ""  # in an egg-info of a checkout
    except PackageNotFoundError:
        raise BadConfig(f"{DISTRIBUTION} is not installed, so a wheel of it cannot be made: pip install it first") from None


def _digest(content: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
