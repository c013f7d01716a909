"""List the environments, show the card of one, or write a fixed pool of its tasks.

agentgym envs                  all environments
agentgym envs --json           the same for a program
agentgym envs guessnumber      its card: lengths, costs, success of expert and shortcuts
agentgym envs sql --write 64 --out sql.jsonl     64 training tasks, for --env.pool_file of train and eval
"""

import inspect
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agentgym.cli.env_facts import known
from agentgym.cli.rows import labelled
from agentgym.core.caller import quoted
from agentgym.core.env import TextEnv
from agentgym.core.folders import write_whole
from agentgym.core.pool import fingerprint, lines
from agentgym.core.screen import printable
from agentgym.errors import BadConfig, BadData, Fault, MissingExtra, failure
from agentgym.options import Options, Positional
from agentgym.registry import DESCRIPTIONS, ENVS, PROBLEMS, make

WIDE = 120  # columns
CANNOT_BE_MADE = (ImportError, BadConfig, BadData, MissingExtra, Fault)


@dataclass(frozen=True)
class Config:
    """Options of `agentgym envs`."""

    id: Positional[str | None] = None
    """Show the card of this environment."""
    difficulties: tuple[int, ...] = (0, 1)
    """Difficulties on the card."""
    tasks: int = 20
    """Tasks played for each number on the card."""
    write: int | None = None
    """Write this number of tasks to --out, as ids with their hashes; --env.split names the split, by default train."""
    out: str = ""
    """New file for --write."""
    json: bool = False
    """Print the list as JSON, with the reason for each environment that cannot be created here."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


def run(config: Config) -> int:
    """Print the table of environments or a card, or write a pool of tasks.

    Raises:
        BadConfig: --json is used with an id, or an option of a pool is invalid.
    """
    console = Console(highlight=False)
    if config.json:
        if config.id is not None:
            raise BadConfig("--json prints the list of all environments: leave the name out")
        print(json.dumps([_as_json(id) for id in sorted(DESCRIPTIONS)], indent=2))
        return 0
    if config.write is not None or config.out:
        _write(config)
        return 0
    if config.id is None:
        console.print(envs(wide=console.width >= WIDE))
        return 0
    from agentgym.cli.card import card  # late: the list plays nothing
    from agentgym.contract import examine

    under_test = examine(make(config.id, **config.env_options))
    under_test.plays, under_test.count = config.tasks, min(config.tasks, 5)
    console.print(Text(f"{under_test.id}  {DESCRIPTIONS.get(under_test.id, '')}", style="bold"))
    console.print(Text(printable(inspect.cleandoc(under_test.kind.__doc__ or "")), style="dim"))
    console.print(facts(under_test.env))
    console.print(card(under_test, config.difficulties))
    return 0


def _write(config: Config) -> None:
    """Write a pool of tasks.

    Raises:
        BadConfig: an option is missing or the file exists.
    """
    if config.id is None or config.write is None or not config.out:
        raise BadConfig("a pool needs all three: `agentgym envs ID --write N --out FILE`")
    path = Path(config.out)
    if path.exists():
        raise BadConfig(f"{path} exists; name a new file for --out")
    env = make(config.id, **{**config.env_options, "pool": config.write})
    tasks = env.pooled() or []
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, "".join(lines(tasks)))
    print(printable(f"{path}: {len(tasks)} tasks of split {env.split}, hash {fingerprint(tasks)}"))
    print(printable(f"train on them with {quoted([f'--env.pool_file={path}'])}"))


def facts(env: TextEnv) -> Table:
    """Return the facts that do not depend on difficulty: actions, splits, horizon, settings, presets, declared bounds."""
    rows = {
        "tools": ", ".join(f"{tool.name}({', '.join(tool.properties)})" for tool in env.tools.values())
        or "none: plain text",
        "splits": ", ".join(f"{name} {share:g}" if share else name for name, share in env.splits.items()),
        "horizon": str(env.horizon),
        "roles": ", ".join(env.roles),
        "settings": ", ".join(f"{name}={getattr(env, name)!r}" for name in env.settings) or "none",
        "presets": ", ".join(env.presets) or "none",
        "snapshot": env.snapshot_kind,
        "declared": f"random at most {env.declared.random_bound:g}, expert at least {env.declared.expert_bound:g}"
        + "".join(f", {name} at most {rate:g}" for name, rate in env.declared.ceilings.items()),
    }
    return labelled(rows)


def envs(*, wide: bool = True) -> Group:
    """Return the table of every environment, followed by the errors of those that cannot be created here.

    A table that is not `wide` leaves out the oracle and split columns.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("id", "actions", *(("oracle", "splits") if wide else ()), "what"):
        table.add_column(column, overflow="fold", no_wrap=column == "id")
    missing: list[Text] = []
    for id in sorted(DESCRIPTIONS):
        facts = known(id)
        env = DESCRIPTIONS[id] if facts else _made(id)
        if facts:
            cells = _cells(facts.tools, True, facts.splits)
        elif isinstance(env, str):
            cells = ("-", "-", "see below")
            missing.append(Text(f"\n{printable(id)} is not here: {printable(env.splitlines()[0])}", style="dim"))
        else:
            cells = _cells(len(env.tools), _has_oracle(env), env.splits)
        table.add_row(*(Text(printable(cell)) for cell in (id, *(cells if wide else cells[:1]), _what(id, env))))
    return Group(table, *missing, *(Text(f"\n{printable(problem)}", style="dim") for problem in PROBLEMS))


def _made(id: str) -> TextEnv | str:
    """Return an environment with its default options, or the reason why it cannot be created here."""
    try:
        return make(id)
    except CANNOT_BE_MADE as error:
        return str(error) or type(error).__name__
    except Exception as error:
        if id in ENVS:  # a bug in this package must not be hidden
            raise
        return failure(error)


def _what(id: str, env: TextEnv | str) -> str:
    """Return a one-line description; for another package's environment, the class docstring and the package's name."""
    if id in ENVS or isinstance(env, str):
        return DESCRIPTIONS[id]
    own = (type(env).__doc__ or "").strip().partition("\n")[0]
    return own if own == DESCRIPTIONS[id] else f"{own} ({DESCRIPTIONS[id]})".strip()


def _as_json(id: str) -> dict[str, object]:
    env = _made(id)
    if isinstance(env, str):
        return {"id": id, "what": DESCRIPTIONS[id], "missing": env}
    return {
        "id": id,
        "what": _what(id, env),
        "tools": list(env.tools),
        "oracle": _has_oracle(env),
        "splits": list(env.splits),
    }


def _has_oracle(env: TextEnv) -> bool:
    return type(env).oracle is not TextEnv.oracle


def _cells(tools: int, oracle: bool, splits: Iterable[str]) -> tuple[str, str, str]:
    return f"{tools} tools" if tools else "text", "yes" if oracle else "no", ", ".join(splits)
