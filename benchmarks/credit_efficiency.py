"""How much of a turn's true advantage a credit carries: Q - V of random turns by many continuations, without bias.

The efficiency of a credit X is E[XA]^2 / (E[X^2] E[A^2]) over random turns of a policy's groups: for the same precision a
policy gradient with X needs so many times more turns than one with A itself (1 over the efficiency). A = Q - V is estimated
by `k` continuations from the snapshot after the turn and `k` other ones from before it, in which the turn is played anew, so
E[XA] has no bias, and the noise of the estimate is taken from E[A^2]. Episodes and measured turns are kept, so a credit that
is written later is measured without playing again.
"""

import asyncio
import json
import math
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from agentgym.core.seeding import derive, generator
from agentgym.episodes.episode import Episode, Group, append_episodes, groups, read_episodes
from agentgym.rollout.play import Job
from agentgym.trainers.credit.interface import resolve
from agentgym.trainers.run.rollouts import Rollouts

CREDITS: dict[str, tuple[str, dict[str, Any]]] = {
    "grpo": ("grpo", {}),
    "grpo, penalty 0.01": ("grpo", {"penalty": 0.01}),
    "dr_grpo": ("dr_grpo", {}),
    "rloo": ("rloo", {}),
    "gigpo, text": ("gigpo", {"anchor": "observation"}),
    "gigpo, state": ("gigpo", {"anchor": "state"}),
    "gigpo, text, both terms by std": ("gigpo", {"anchor": "observation", "step_norm": "std"}),
    "gigpo, state, both terms by std": ("gigpo", {"anchor": "state", "step_norm": "std"}),
    "state_td": ("state_td", {}),
    "state_td, text": ("state_td", {"anchor": "observation"}),
    "state_td, every visit": ("state_td", {"revisits": True}),
    **{f"state_td, lam {lam:g}": ("state_td", {"lam": lam}) for lam in (0.0, 0.6, 1.0)},
    **{f"state_td, shrinkage {m:g}": ("state_td", {"shrinkage": m}) for m in (0.0, 2.0, 8.0)},
    **{f"state_td, gamma {gamma:g}": ("state_td", {"gamma": gamma}) for gamma in (0.9, 1.0)},
    **{name: (name, {}) for name in ("turn_mc", "mt_grpo", "rebn", "ngrpo", "salt", "hgpo")},
}
ROUND, TURNS = 16, 128
"""Groups that are played together, and how many of their turns are measured."""


def files(out: Path, name: str) -> tuple[Path, Path]:
    """Return where the episodes and the measured turns of a setting are kept."""
    return out / f"{name}-efficiency-episodes.jsonl", out / f"{name}-efficiency.jsonl"


def measure(out: Path, name: str, turns: int, k: int, until: float) -> None:
    """Measure rounds of groups until so many turns are there, or until the time is up."""
    from credit import SETTINGS, base, lines, warm_start

    from agentgym.engines.hf.engine import HFEngine

    setting = SETTINGS[name]
    engine = HFEngine(str(warm_start(out, name)), slots=128)
    config = replace(base(setting), **setting.rl)
    with closing(Rollouts(config, engine, engine.tokenizer)) as rollouts:
        while time.time() < until:
            rows = lines(files(out, name)[1])
            if len(rows) >= turns:
                break
            number = max((row["round"] for row in rows), default=-1) + 1
            done = asyncio.run(_round(rollouts, number, TURNS, k))
            _keep(*done, *files(out, name))
            print(f"{name}: {len(rows) + len(done[1])} of {turns} turns", flush=True)


def _keep(episodes: Sequence[Episode], rows: Sequence[dict[str, Any]], episodes_path: Path, measured: Path) -> None:
    """Write a round's episodes, then its turns in one piece: a round that was cut off is played again."""
    with append_episodes(episodes_path) as file:
        file.writelines(episode.to_json() + "\n" for episode in episodes)
    with measured.open("a") as file:
        file.write("".join(json.dumps(row) + "\n" for row in rows))


async def _round(rollouts: Rollouts, number: int, turns: int, k: int) -> tuple[list[Episode], list[dict[str, Any]]]:
    """Play groups and measure so many of their turns; return the episodes and the turns."""
    (source,) = rollouts.sources()
    draws = source.at(range(number * ROUND, (number + 1) * ROUND), "efficiency")
    tasks = {draw.task.id: draw.task for draw in draws}
    episodes = await rollouts.collect(draws, number)
    places = [(i, t) for i, e in enumerate(episodes) if not e.fault for t in range(len(e.turns))]
    drawn = generator("efficiency", number).choice(len(places), size=min(turns, len(places)), replace=False)
    chosen = [places[int(n)] for n in sorted(drawn)]
    config, (env,) = rollouts.config, rollouts.envs
    agents = rollouts.agents(config.temperature)
    points: dict[int, set[int]] = {}
    for i, t in chosen:
        points.setdefault(i, set()).update({t, t + 1} if t + 1 < len(episodes[i].turns) else {t})
    points_of = [(tasks[episodes[i].task_id], episodes[i], turns) for i, turns in points.items()]
    starts = dict(zip(points, await rollouts.pool.starts(agents[env], env, points_of), strict=True))
    jobs: list[Job] = []
    for i, t in chosen:
        for side, point in (("before", t), ("after", t + 1)):
            if point in starts[i]:
                task, group = tasks[episodes[i].task_id], f"{number}/{i}/{t}/{side}"
                seed = derive("efficiency", number, i, t, side)
                jobs += [Job(task, n, seed, group, env, start=starts[i][point]) for n in range(k)]
    paid: dict[str, list[float]] = {}
    for job, episode in zip(jobs, await rollouts.pool.collect(agents, jobs), strict=True):
        if not episode.fault:
            paid.setdefault(job.group_id, []).append(episode.reward)
    rows: list[dict[str, Any]] = []
    for i, t in chosen:
        episode, before, after = episodes[i], paid.get(f"{number}/{i}/{t}/before"), paid.get(f"{number}/{i}/{t}/after")
        last = t + 1 == len(episode.turns)
        if before is None or (after is None and not last):
            continue  # a turn that could not be reached again
        rows.append(
            {
                "round": number, "group": episode.group_id, "attempt": episode.attempt, "turn": t,
                "reward": episode.turns[t].reward, "before": before, "after": after or [],
            }
        )  # fmt: skip
    return episodes, rows


class Measured:
    """The measured turns of a setting: their advantages, the noise in them, and what each credit says."""

    def __init__(self, out: Path, name: str) -> None:
        from credit import lines

        episodes_path, measured = files(out, name)
        self.rows = lines(measured)
        found = {(e.group_id, e.attempt): e for e in read_episodes(episodes_path)}  # of a round played twice, the last
        self.batches: list[list[Group]] = []
        rounds: dict[str, int] = {row["group"]: row["round"] for row in self.rows}
        by_round: dict[int, list[Episode]] = {}
        for (group, _), episode in found.items():
            if group in rounds:
                by_round.setdefault(rounds[group], []).append(episode)
        self.batches = [groups(episodes) for episodes in by_round.values()]
        self.advantages = np.array([_advantage(row) for row in self.rows])
        self.noise = np.array([_noise(row) for row in self.rows])
        names = [row["group"] for row in self.rows]
        self.members = [np.flatnonzero(np.array(names) == name) for name in dict.fromkeys(names)]

    def values(self, credit: str, options: dict[str, Any]) -> Any:
        """Return what a credit says of each measured turn."""
        values: dict[tuple[str, int], Any] = {}
        for batch in self.batches:
            for group, rows in zip(batch, resolve(credit, **options)(batch), strict=True):
                values |= {(e.group_id, e.attempt): row for e, row in zip(group, rows, strict=True)}
        return np.array([values[row["group"], row["attempt"]][row["turn"]] for row in self.rows])

    def drawn(self, resamples: int = 4000) -> list[Any]:
        """Return the indices of the turns as they are, and of bootstrap resamples of whole groups."""
        rng = np.random.default_rng(0)
        drawn = [np.concatenate([self.members[i] for i in rng.integers(0, len(self.members), len(self.members))])
                 for _ in range(resamples)]  # fmt: skip
        return [np.arange(len(self.rows)), *drawn]

    def table(self) -> list[dict[str, Any]]:
        """Return by credit: efficiency, and its ratio to GRPO's, each with a 95 % interval over groups."""
        drawn = self.drawn()
        power = np.array([np.mean(self.advantages[i] ** 2 - self.noise[i]) for i in drawn])
        plain: Any = None
        rows: list[dict[str, Any]] = []
        for label, (credit, options) in CREDITS.items():
            x = self.values(credit, options)
            a = self.advantages
            ours = np.array([np.mean(x[i] * a[i]) ** 2 / max(np.mean(x[i] ** 2), 1e-300) for i in drawn])
            plain = ours if plain is None else plain
            with np.errstate(all="ignore"):  # a policy that never succeeds has no advantages: nan
                rows.append({"credit": label, "efficiency": _interval(ours / power), "ratio": _interval(ours / plain)})
        return rows

    def places(self) -> dict[str, Any]:
        """Return by the name of a kind of turn which of the measured ones are of it."""
        about: dict[tuple[str, int, int], tuple[int, int, float, bool]] = {}
        for group in (group for batch in self.batches for group in batch):
            keys = [[turn.state_key for turn in episode.turns] for episode in group]
            met = Counter(key for own in keys for key in {*own})
            wins = float(np.mean([episode.success is True for episode in group]))
            for episode, own in zip(group, keys, strict=True):
                for k, key in enumerate(own):
                    after = met[own[k + 1]] if k + 1 < len(own) else len(group)
                    about[episode.group_id, episode.attempt, k] = met[key], after, wins, key in own[:k]
        table = [about[row["group"], row["attempt"], row["turn"]] for row in self.rows]
        here, after, wins, again = (np.array(column) for column in zip(*table, strict=True))
        turn = np.array([row["turn"] for row in self.rows])
        return {
            "in a state that only one episode visited": here == 1,
            "from a shared state into such a state": (here > 1) & (after == 1),
            "between shared states": (here > 1) & (after > 1),
            "in a state that the episode visited before": again,
            "turns 1 to 4": turn < 4,
            "turns 5 to 10": (turn >= 4) & (turn < 10),
            "turn 11 and later": turn >= 10,
            "in groups that win at most a quarter": wins <= 0.25,
            "in groups that win at least three quarters": wins >= 0.75,
        }

    def where(self, credits: Sequence[str]) -> list[dict[str, Any]]:
        """Return by kind of turn: the share of turns, the share of E[A^2], and the efficiency of some credits there."""
        drawn = self.drawn(1000)
        summaries = {name: self.values(*CREDITS[name]) for name in credits}
        square = self.advantages**2 - self.noise
        rows: list[dict[str, Any]] = []
        for kind, mask in self.places().items():
            power = np.array([np.mean((square * mask)[i]) for i in drawn])
            row: dict[str, Any] = {"kind": kind, "turns": mask.mean(), "power": power[0] / np.mean(square)}
            for name, x in summaries.items():
                ours = [
                    np.mean((x * self.advantages * mask)[i]) ** 2 / max(np.mean((x**2 * mask)[i]), 1e-300) for i in drawn
                ]
                row[name] = _interval(np.where(power > 0, np.array(ours) / np.where(power > 0, power, 1), np.inf))
            rows.append(row)
        return rows

    def branch_efficiency(self, k: int) -> float:
        """Return the efficiency of Q - V itself, estimated by k + k continuations of its own."""
        power = float(np.mean(self.advantages**2 - self.noise))
        single = np.mean([n * len(row["before"]) for n, row in zip(self.noise, self.rows, strict=True)])
        return power / (power + float(single) / k) if power or single else math.nan


def _advantage(row: dict[str, Any]) -> float:
    return row["reward"] + (float(np.mean(row["after"])) if row["after"] else 0.0) - float(np.mean(row["before"]))


def _noise(row: dict[str, Any]) -> float:
    """Return an unbiased estimate of the variance of the advantage's estimate."""
    return sum(float(np.var(paid, ddof=1)) / len(paid) for paid in (row["before"], row["after"]) if len(paid) > 1)


def _interval(values: Any) -> tuple[float, float, float]:
    """Return a value, which comes first, and the 95 % interval of its resamples."""
    low, high = np.quantile(values[1:], [0.025, 0.975], method="nearest")
    return float(values[0]), float(low), float(high)
