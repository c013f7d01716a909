"""Files of a new package, as `agentgym new` and `agentgym package` write them."""

import keyword
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from agentgym.core.folders import check_folder
from agentgym.core.installed import OURS
from agentgym.errors import DISTRIBUTION, BadConfig

FILES = {
    # file of the package: its template
    "pyproject.toml": "pyproject.toml.txt",
    "README.md": "README.md.txt",
    "CARD.md": "CARD.md.txt",
    "$package/__init__.py": "init.py.txt",
    "$package/env.py": "env.py.txt",
    "tests/test_env.py": "test_env.py.txt",
    ".github/workflows/check.yml": "ci.yml.txt",
}
_DISTRIBUTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_ENV = re.compile(r"([a-z][a-z0-9_-]*)/([A-Z][A-Za-z0-9]*)-v\d+")


@dataclass(frozen=True, slots=True)
class Names:
    """Names in the files of a new package."""

    distribution: str
    """Name for `pip install`, such as `frost-envs`."""
    package: str
    """Name for `import`, such as `frost_envs`."""
    id: str
    """Id of the environment, such as `frost/Lighthouse-v0`."""
    cls: str
    """Name of the environment's class, such as `Lighthouse`."""


def names(distribution: str, id: str = "") -> Names:
    """Return the names for a package; if `id` is empty, the environment is named after the package.

    Raises:
        BadConfig: Python, pip or Gymnasium would refuse a name; the message has an example.
    """
    if not _DISTRIBUTION.fullmatch(distribution):
        raise BadConfig(f"the package's name is {distribution!r}; expected lower-case words with dashes, such as frost-envs")
    package = distribution.replace("-", "_")
    stem = re.sub(r"-(envs?|gym)$", "", distribution)
    id = id or f"{stem}/{''.join(word.capitalize() for word in stem.split('-'))}-v0"
    match = _ENV.fullmatch(id)
    if not match:
        raise BadConfig(f"the environment's id is {id!r}; expected NAMESPACE/Name-v0, such as frost/Lighthouse-v0")
    if match[1] == OURS:
        raise BadConfig(f"the namespace {OURS} is agentgym's own; expected one of yours, such as {stem}/{match[2]}-v0")
    if keyword.iskeyword(package) or keyword.iskeyword(match[2]) or package in ("agentgym", "tests"):
        raise BadConfig(f"{package!r} with the class {match[2]!r} cannot be imported; choose another name")
    return Names(distribution, package, id, match[2])


def write(names: Names, folder: Path) -> list[Path]:
    """Write the files of a package into `folder`, which must be new or empty, and return their paths.

    Raises:
        BadConfig: the folder is not empty; no file is overwritten.
    """
    check_folder(folder)
    if folder.is_dir() and any(folder.iterdir()):
        raise BadConfig(f"{folder} is not empty; choose another folder with --out, or remove it")
    values = {
        "distribution": names.distribution,
        "package": names.package,
        "id": names.id,
        "class": names.cls,
        "short": names.id.rpartition("/")[2].rpartition("-v")[0].lower(),
        "agentgym": DISTRIBUTION,
    }
    written: list[Path] = []
    for name, template in FILES.items():
        path = folder / Template(name).substitute(values)
        path.parent.mkdir(parents=True, exist_ok=True)
        content = files(__name__).joinpath("files", template).read_text(encoding="utf-8")
        path.write_text(Template(content).substitute(values), encoding="utf-8")
        written.append(path)
    return written
