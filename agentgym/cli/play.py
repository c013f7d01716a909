r"""Play an environment in the terminal.

    agentgym play guessnumber --seed 3                 you type
    agentgym play rlvr/FrozenLake-v0 --policy oracle   watch the oracle
    agentgym play tictactoe --env.opponent self        both sides

While you type: `?` lists the admissible commands, `!` lets the oracle take a turn, `!!` lets it play to the end, and
Ctrl-D quits. A leading backslash is removed and the rest is sent, so `\?` sends `?` to the environment.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

from rich.console import Console
from rich.panel import Panel
from rich.text import Text

from agentgym.agents.fields import describe
from agentgym.contract.env_under_test import first
from agentgym.contract.solutions import random_policy
from agentgym.core.env import TextEnv
from agentgym.core.outcome import Info
from agentgym.core.play import play
from agentgym.core.screen import printable
from agentgym.errors import BadConfig
from agentgym.options import Options, Positional
from agentgym.registry import full_id, make

COLUMNS = 4  # admissible commands side by side


@dataclass(frozen=True)
class Config:
    """Options of `agentgym play`."""

    id: Positional[str]
    """The environment: an id, a short name, or MODULE:NAMESPACE/NAME-v0."""
    seed: int = 0
    """Seed of the task and of the environment's randomness."""
    policy: Literal["human", "oracle", "expert", "random"] = "human"
    """Policy that plays the episode."""
    split: str | None = None
    """Split to draw the task from; by default the environment's own."""
    task: str | None = None
    """Id of the task to play, instead of one drawn by the seed."""
    horizon: int | None = None
    """Maximum number of turns; by default the environment's own."""
    env_options: Options = field(default_factory=dict[str, object])
    """Options of the environment: --env.KEY VALUE."""


Ask = Callable[[TextEnv, str, Info], str | None]
"""Function from the environment, the observation and the info to an action; None quits."""


def run(config: Config) -> int:
    """Play one episode; the exit code is always 0.

    Raises:
        BadConfig: the seed is negative, or the policy does not exist or has no action.
    """
    console = Console(highlight=False)
    if config.seed < 0:
        raise BadConfig(f"--seed is {config.seed}; expected 0 or more")
    env = make(config.id, **config.env_options, **({"split": config.split} if config.split else {}))
    settings = {"task": config.task, "horizon": config.horizon}
    options = {name: value for name, value in settings.items() if value is not None}
    observation, info = env.reset(seed=config.seed, options=options)
    title = f"{full_id(config.id)}  {info['task_id']}  seed {config.seed}"
    console.print(Panel(Text(printable(observation)), title=Text(printable(title)), title_align="left"))
    for tool in env.tools.values():
        console.print(Text(printable(f"  {describe(tool)}"), style="dim"))  # as a prompt lists it
    ask = Human(console).ask if config.policy == "human" else _automatic(config.policy)
    choose = partial(ask, env)
    for action, step in play(env, choose, (observation, info)):
        if config.policy != "human":
            console.print(Text(f"> {printable(action)}", style="cyan"))
        console.print(_response(env, step.observation, step.info))
        if step.over:
            style = "bold green" if step.info["success"] else "bold red"
            console.print(Text(f"{step.info['reason']} after {env.turn} turns; {_rewards(env)}", style=style))
            return 0
    console.print(Text("left", style="dim"))
    return 0


def _automatic(policy: str) -> Ask:
    def ask(env: TextEnv, observation: str, info: Info) -> str | None:
        if policy == "random":
            return random_policy(env, [observation], info)
        action = first(env.oracle if policy == "oracle" else env.expert)
        if action is None:
            raise BadConfig(f"{type(env).__name__} has no {policy} that knows what to do here")
        return action

    return ask


class Human:
    """Human policy: actions typed at the keyboard."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.leave_it_to_the_oracle = False

    def ask(self, env: TextEnv, observation: str, info: Info) -> str | None:
        """Return the typed action, or the oracle's action if the user asks for it; None to quit."""
        while True:
            word = "!" if self.leave_it_to_the_oracle else self._line(env)
            if word is None or word.startswith("\\"):
                return word if word is None else word[1:]
            if word == "?":
                self.console.print(_commands(info["admissible"], env))
            elif word in ("!", "!!"):
                self.leave_it_to_the_oracle |= word == "!!"
                action = first(env.oracle)
                if action is None:
                    self.leave_it_to_the_oracle = False
                    self.console.print(Text("the oracle has no action here", style="red"))
                    continue
                self.console.print(Text(f"> {printable(action)}", style="cyan"))
                return action
            else:
                return word

    def _line(self, env: TextEnv) -> str | None:
        who = f"{env.role} " if len(env.roles) > 1 else ""
        try:
            return self.console.input(Text(f"{who}{env.turn + 1}/{env.limit}> ", style="bold"))
        except EOFError:
            return None


def _commands(commands: list[str] | None, env: TextEnv) -> Text:
    if commands is None:
        form = ", ".join(f"{name}[…]" for name in env.tools) or "any text"
        return Text(f"no finite list here; say {form}", style="dim")
    rows = [commands[i : i + COLUMNS] for i in range(0, len(commands), COLUMNS)]
    width = max((len(command) for command in commands), default=0) + 3
    return Text(
        "\n".join("  " + "".join(printable(cell).ljust(width) for cell in row).rstrip() for row in rows), style="dim"
    )


def _response(env: TextEnv, observation: str, info: Info) -> Text:
    text = Text(printable(observation))
    if not info["valid"] and info["error"] != observation:
        text.append(f"\n{printable(str(info['error']))}", style="yellow")
    numbers = {**info["rewards"], **{name: value for name, value in info["metrics"].items() if value}}
    if numbers:
        text.append("\n" + "  ".join(f"{printable(name)} {value:g}" for name, value in numbers.items()), style="dim")
    return text


def _rewards(env: TextEnv) -> str:
    return ", ".join(f"{'reward' if role == 'agent' else role} {value:g}" for role, value in env.totals.items())
