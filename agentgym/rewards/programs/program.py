"""Bundle modules of this package into a program for a sandbox, which does not have the package."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import cast

from agentgym.rewards.programs import inside, values


def program(last: str, shipped: Sequence[ModuleType] = (values, inside)) -> str:
    """Return the source of a program that defines the modules `shipped` and then runs `last`, a call in the last module."""
    name = shipped[-1].__name__
    return f"{_modules(tuple(shipped))}\nsys.modules[{name!r}].{last}\n"


@cache
def _modules(shipped: tuple[ModuleType, ...]) -> str:
    sources = {module.__name__: Path(cast("str", module.__file__)).read_text(encoding="utf-8") for module in shipped}
    return _BOOT.format(sources=sources)


_BOOT = """
import sys, types
for name, source in {sources!r}.items():
    for place in range(1, name.count('.') + 2):
        part = '.'.join(name.split('.')[:place])
        if part not in sys.modules:
            made = sys.modules[part] = types.ModuleType(part)
            made.__path__ = []
    exec(compile(source, '<' + name + '>', 'exec'), sys.modules[name].__dict__)
"""
