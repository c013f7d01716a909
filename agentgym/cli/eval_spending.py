"""Cost of an evaluation: the prices of its model, an estimate, and an engine that adds up cost."""

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, TypeVar

from agentgym.agents.base import Agent
from agentgym.agents.message_agent import MessageAgent
from agentgym.cli.image_disk import image_lines
from agentgym.core.tasks import Task
from agentgym.engines.kinds import ENGINES
from agentgym.episodes.episode import read_episodes
from agentgym.errors import BadConfig, MissingExtra, UnknownName, no_such
from agentgym.evaluate.choice import UNCOUNTED, EvaluationPlan, choose
from agentgym.evaluate.run import missing_tasks
from agentgym.evaluate.spending import MILLION, AttemptCosts, MeteredEngine, Price, price_of, read_prices, total_cost
from agentgym.harness.description import is_harness, plays_itself
from agentgym.registry import make

if TYPE_CHECKING:
    from agentgym.harness.agent import HarnessAgent

TABLE = "AGENTGYM_PRICES"
"""Environment variable that names a table of prices."""


UNLIMITED = "as many turns as the harness takes (--attempt-turns limits them)"


class Spending(Protocol):
    """Flags used by this module."""

    @property
    def model(self) -> str | None:
        """Model as named on the command line; None if a policy plays."""

    @property
    def agent(self) -> str | None:
        """Agent, or `harness:NAME`."""

    @property
    def attempt_turns(self) -> int | None:
        """Maximum replies of a harness's attempt."""

    @property
    def prices(self) -> str | None:
        """File with a table of prices."""

    @property
    def max_cost(self) -> float | None:
        """Maximum cost in US dollars."""

    @property
    def retry_faults(self) -> bool:
        """True if episodes that ended in an infrastructure error are to be replayed."""
        ...


AgentOfEval = TypeVar("AgentOfEval", bound="Agent | HarnessAgent")


def metered(
    config: Spending, agent: AgentOfEval, plan: EvaluationPlan, folder: Path
) -> tuple[AgentOfEval, Price | None, MeteredEngine | None, str]:
    """Return the agent with its costs limited, the model's price, the metered engine of a plain chat agent, and a text
    on the maximum usage.

    The metered engine replaces the agent's engine. Earlier sessions in the folder count toward `--max-cost`. For a
    harness, there is no metered engine and no text. Any agent of another kind is returned unchanged, without a price.
    """
    check_spending(config, chat=isinstance(agent, MessageAgent))
    if not isinstance(agent, MessageAgent) and not plays_itself(agent):
        return agent, None, None, ""
    price = _price(config)
    episodes = folder / "episodes.jsonl"
    played = list(read_episodes(episodes)) if episodes.exists() else []
    spent = (total_cost(played, price) if config.max_cost is not None else 0.0) or 0.0
    if plays_itself(agent):
        if config.max_cost is not None and price is not None:
            agent = dataclasses.replace(agent, costs=AttemptCosts(price, config.max_cost, spent))
        return agent, price, None, ""
    meter = agent.engine = MeteredEngine(agent.engine, price, config.max_cost, spent)
    stored = Counter(episode.env for episode in played if not (config.retry_faults and episode.fault))
    return agent, price, meter, at_most(plan, agent.sampling.max_tokens, price, stored)


def check_spending(config: Spending, *, chat: bool) -> None:
    """Check that the cost flags `--prices` and `--max-cost` have an effect.

    They apply only to models over plain chat (`chat:…`; then `chat` is True) and to harnesses.

    Raises:
        BadConfig: a flag has no effect or is invalid, or --max-cost is given and the price of a harness's model is unknown.
    """
    if config.max_cost is not None and not 0 < config.max_cost < math.inf:
        raise BadConfig(f"--max-cost is {config.max_cost}; expected US dollars above 0")
    flag = "--prices" if config.prices else "--max-cost" if config.max_cost is not None else ""
    harness = is_harness(config.agent or "")
    if flag and not chat and not harness:
        raise BadConfig(f"{flag} has no effect here: it is for models over plain chat (chat:…) and for harnesses")
    if harness and config.max_cost is not None and _price(config) is None:
        raise BadConfig(
            f"--max-cost is {config.max_cost:g}, and a harness's model names no price: give one with --prices FILE, in a "
            f"table for {config.model!r}"
        )


def _price(config: Spending) -> Price | None:
    """Return the price of the model from --prices or the file that `TABLE` names; None if it is unknown.

    Raises:
        UnknownName: the table given by --prices lacks the model.
    """
    path = config.prices or os.environ.get(TABLE) or None
    prices = read_prices(path) if path else {}
    price = price_of(config.model or "", prices)
    if config.prices and price is None:
        raise UnknownName(no_such(f"model in {config.prices}", config.model or "", prices))
    return price


def planned(config: Spending, plan: EvaluationPlan, named: Mapping[str, object], turn_tokens: int) -> str:
    """Return a text with the number of tasks and turns of each environment, and the maximum usage of an evaluation.

    Nothing is loaded or played. `named` are the manifest's entries about the suite, `turn_tokens` is the maximum
    number of tokens in a reply, 0 without a model.
    """
    kind = ENGINES.get((config.model or "").partition(":")[0])
    check_spending(config, chat=kind is not None and not kind.tokens)
    limit = (config.attempt_turns or 0) if is_harness(config.agent or "") else None
    lines: list[str] = []
    plans = {env: plan.of(env) for env in plan.envs}
    tasks: dict[str, list[Task]] = {}
    for env, own in plans.items():
        try:
            tasks[env] = chosen = choose(env, own)
        except MissingExtra as error:
            lines.append(f"{env}, left out: {error}")
            continue
        made = make(env, **plan.options(env))
        turns = f"at most {made.horizon if limit is None else limit} turns each" if limit != 0 else UNLIMITED
        times = f" x {own.attempts} attempts" if own.attempts > 1 else ""
        lines.append(f"{env}, split {chosen[0].split}: {len(chosen):,} tasks{times}, {turns}")
        lines += image_lines(made, chosen)
        made.close()
    lines.append(at_most(plan, turn_tokens, _price(config), turns_each=limit))
    if turn_tokens:
        lines.append("Prompts come on top: a few tasks (--tasks 5) show how many input tokens a turn has.")
    return "\n".join([*lines, *missing_tasks(named, plans, tasks)])


def at_most(
    plan: EvaluationPlan,
    turn_tokens: int,
    price: Price | None,
    played: Mapping[str, int] | None = None,
    turns_each: int | None = None,
) -> str:
    """Return a text with the maximum usage of an evaluation: episodes, turns or requests, output tokens and their price.

    `turn_tokens` is the maximum number of tokens in a reply, 0 without a model. `played` has the number of finished
    episodes by environment, which are subtracted. `turns_each` replaces the environments' own horizon; 0 means no limit.
    """
    episodes = turns = 0
    for name in plan.envs:
        mine = plan.of(name)
        try:
            env = make(name, **plan.options(name))
        except Exception:  # `evaluate` creates it again and reports the error
            continue
        split = mine.split or list(env.splits)[-1]
        size = env.task_count(split) if split in env.splits else None
        tasks = min(mine.tasks or size or UNCOUNTED, size or math.inf) * len(mine.difficulties or (0,))
        left = max(int(tasks) * mine.attempts - (played or {}).get(name, 0), 0)
        episodes += left
        turns += left * (env.horizon if turns_each is None else turns_each)
        env.close()
    if played and not episodes:
        return "every episode is there: nothing is played"
    if turns_each == 0:
        return f"{episodes:,} episodes, {UNLIMITED}"
    if not turn_tokens:
        return f"{episodes:,} episodes: at most {turns:,} turns"
    tokens = turns * turn_tokens
    money = "" if price is None else f", ${tokens * price.output / MILLION:,.2f} for these"
    more = " more" if played else ""
    return f"{episodes:,}{more} episodes: at most {turns:,} requests and {tokens:,} output tokens{money}"
