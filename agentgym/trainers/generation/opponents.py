"""Opponents from a pool: past checkpoints of the run, or policies of the caller, play the other roles of a game."""

import re
import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from agentgym.agents.base import Agent
from agentgym.agents.spec import AGENTS
from agentgym.core.seeding import generator
from agentgym.engines import Sampling
from agentgym.episodes.episode import DECIDED, TRAINED, Episode
from agentgym.errors import BadConfig, BadData, no_such
from agentgym.registry import make
from agentgym.rollout.play import Job
from agentgym.trainers.generation.interface import Generation, Play, generation
from agentgym.trainers.learners.interface import kind_of
from agentgym.trainers.seam import CALLER, SHAPES, Within

if TYPE_CHECKING:
    from agentgym.trainers.config.train_config import TrainConfig

OPPONENT = "opponent"
"""Episode label with the name of the frozen opponent."""
FIRST_RATING = 1000.0
OWN = re.compile(r"step-[0-9]{1,9}")
"""Pattern of the names of members that are checkpoints of this run."""
Choose = Literal["uniform", "hard", "even"]


@dataclass(slots=True)
class Member:
    """A frozen policy of the pool."""

    rating: float
    games: int = 0


def expected(mine: float, other: float) -> float:
    """Return the expected score of a player against another by their Elo ratings: 1 / (1 + 10^((other - mine) / 400))."""
    return 1 / (1 + 10 ** ((other - mine) / 400))


def score(episode: Episode, role: str) -> float:
    """Return 1 if the role alone succeeded, 0 if only others did, else 1/2."""
    mine = episode.role_success.get(role, False)
    others = any(success for name, success in episode.role_success.items() if name != role)
    return 0.5 if mine == others else float(mine)


def frozen(folder: str) -> dict[str, Path]:
    """Return the model folders in a folder, by opponent name (`frozen/SUBFOLDER`); {} for an empty name.

    Raises:
        BadConfig: the folder has no policies.
    """
    if not folder:
        return {}
    path = Path(folder).expanduser()
    found = {f"frozen/{model.parent.name}": model.parent for model in sorted(path.glob("*/config.json"))}
    if not found:
        raise BadConfig(f"folder of generation 'opponents' is {folder!r}; expected one with a model folder per opponent")
    return found


def _check(config: "TrainConfig") -> None:
    reason = ""
    if config.agent not in AGENTS:
        reason = f"agent {config.agent!r} plays an attempt as a whole"
    elif config.async_level:
        reason = f"async_level is {config.async_level}, and the opponents of a step are loaded when it is played"
    elif config.processes > 1:
        reason = f"processes is {config.processes}; it works with 1"
    elif not kind_of(config.learner).in_memory:
        reason = f"learner {config.learner!r} has its weights on a server, and the pool needs their files"
    if reason:
        raise BadConfig(f"generation 'opponents': {reason}. Use generation 'plain', or set it otherwise")
    options = config.generation_options
    frozen(str(options.get("folder", "")))
    for spec in config.mix:
        with closing(make(spec.id, **spec.options)) as env:
            roles: Sequence[str] = cast("Any", env.unwrapped).roles
        if len(roles) < 2:
            raise BadConfig(f"generation 'opponents': {spec.name} has one role; expected a game of several")
        if (role := options.get("role", "")) and role not in roles:
            raise BadConfig(no_such(f"role of {spec.name}", str(role), roles))


@generation("opponents", check=_check)
class Opponents(Generation):
    """Play a share of a step's groups against frozen policies, and the other groups in self-play.

    Sources: SPIRAL (arXiv 2506.24119) for the roles, prioritized fictitious self-play of AlphaStar (Vinyals et al.,
    Nature 575, 2019) for `choose`. The environment must leave all roles to the agent (`--env.opponent self`). After
    every `every` steps (0: never) the policy joins the pool, which keeps the newest `keep` policies; `folder` adds
    frozen policies of the caller, which never leave. A group has one trained role (`role`, or each in turn) and one
    opponent for all other roles, drawn with weights 1 (`uniform`), (1 - p)^2 (`hard`) or p (1 - p) (`even`), where p is
    the policy's expected score. Opponents sample on a separate hf engine at the run's temperature. Their turns are in
    the episode but are never trained; `success` and `reward` of the episode are those of the trained role, and its
    labels name the trained role and the opponent.

    Ratings are Elo's (The Rating of Chessplayers, 1978): all begin at 1000, except that a new member begins with the
    policy's rating. After each game, in the order of the step, policy and member move by ±k (S - E), E = 1 / (1 +
    10^((R_member - R_policy) / 400)); S is 1 if the trained role alone succeeded, 0 if only others did, else 1/2. Games
    that ended in an infrastructure error do not count. The policy changes between games, so its rating follows late; a
    higher `k` follows faster.
    Logged: `opponents`, `opponent_games`, `opponent_score` (mean S), `policy_rating`.
    """

    def __init__(
        self,
        run: Any,
        *,
        every: Annotated[int, Within(0, 1_000_000)] = 10,
        keep: Annotated[int, Within(1, 1000)] = 5,
        share: Annotated[float, Within(0, 1)] = 0.5,
        choose: Choose = "even",
        k: Annotated[float, Within(0, 1000)] = 16.0,
        role: Annotated[str, SHAPES] = "",
        folder: Annotated[str, CALLER] = "",
    ) -> None:
        super().__init__(run)
        self.every, self.keep, self.share, self.choose, self.k, self.role = every, keep, share, choose, k, role
        self.frozen = frozen(folder)
        self.rating = FIRST_RATING
        self.members = {name: Member(FIRST_RATING) for name in self.frozen}
        self.left: dict[str, int] = {}
        """Step at which each member left the pool; a member's files are deleted `checkpoint_every` steps later."""
        self._engines: dict[str, Any] = {}
        """Engine of the opponent that played last, by the opponent's name."""
        run.resource("opponents", lambda: self)  # closed with the run

    async def play(self, agents: Mapping[str, Agent], jobs: Sequence[Job], play: Play, step: int) -> list[Episode]:
        """Play the jobs, opponent by opponent; return the episodes in job order, with the results of the trained roles.

        Games of self-play run together with those of the first opponent.
        """
        chosen = self._chosen(list(dict.fromkeys((job.group_id, job.env) for job in jobs)), step)
        by_member: dict[str, list[int]] = {}
        for place, job in enumerate(jobs):
            by_member.setdefault(chosen[job.group_id][0] if job.group_id in chosen else "", []).append(place)
        alone = by_member.pop("", [])
        episodes: dict[int, Episode] = {}
        for name, places in sorted(by_member.items()) or [("", [])]:
            now, alone = sorted([*alone, *places]), []
            playing = [self._against(jobs[place], chosen, name) for place in now]
            episodes |= dict(zip(now, await play(agents, playing), strict=True))
        ordered = [episodes[place] for place in range(len(jobs))]
        for episode in ordered:
            if episode.group_id in chosen and not episode.fault:
                _of_role(episode, *chosen[episode.group_id])
        _check_roles(ordered)
        return ordered

    def _chosen(self, groups: Sequence[tuple[str, str]], step: int) -> dict[str, tuple[str, str]]:
        """Return (opponent, trained role) by id of the groups that meet an opponent; `groups`: (id, environment)."""
        names = sorted(self.members)
        weights = [self._weight(expected(self.rating, self.members[name].rating)) for name in names]
        chosen: dict[str, tuple[str, str]] = {}
        for group, env in groups if names else ():
            rng = generator("opponents", self.run.config.seed, step, group)
            if rng.random() < self.share:
                roles = self.run.rollouts.env(env).unwrapped.roles
                role = self.role or roles[(step + len(chosen)) % len(roles)]
                chosen[group] = names[int(rng.choice(len(names), p=[w / sum(weights) for w in weights]))], role
        return chosen

    def _weight(self, p: float) -> float:
        """Return the sampling weight of an opponent; `p` is the score that the policy is expected to reach against it."""
        return {"uniform": 1.0, "hard": (1 - p) ** 2, "even": p * (1 - p)}[self.choose]

    def _against(self, job: Job, chosen: Mapping[str, tuple[str, str]], name: str) -> Job:
        if job.group_id not in chosen:
            return job
        opponent = self._agent(name, job.env)
        roles = self.run.rollouts.env(job.env).unwrapped.roles
        return replace(job, opponents={role: opponent for role in roles if role != chosen[job.group_id][1]})

    def _agent(self, name: str, env: str) -> Agent:
        """Return the agent of a member in one of the run's environments.

        Raises:
            BadConfig: the member's folder is missing or damaged.
        """
        from agentgym.engines.hf.engine import HFEngine  # late, as all that loads torch
        from agentgym.trainers.config.train_config import settings_in

        config = self.run.config
        if name not in self._engines:
            self.close()
            path = self._path(name)
            if not (path / "config.json").is_file():
                raise BadConfig(
                    f"{path} does not hold opponent {name!r}, which the run's pool names: put the model folder back, or "
                    "start a run from the last checkpoint's model (--model), with a new pool"
                )
            device, context = str(self.run.accelerator.device), config.context_tokens or None
            self._engines[name] = HFEngine(path, slots=config.concurrency, context=context, device=device)
        engine = self._engines[name]
        spec = settings_in(config, self.run.rollouts.envs[env]).spec
        return spec.make(engine, Sampling(temperature=config.temperature), engine.tokenizer)

    def _path(self, name: str) -> Path:
        return self.frozen.get(name) or self.run.folder / "opponents" / name

    def update(self, episodes: Sequence[Episode], step: int) -> Mapping[str, float]:
        """Rate the step's games, add the policy to the pool every `every` steps (0: never), and return the metrics."""
        scores: list[float] = []
        for episode in episodes:
            name = episode.labels.get(OPPONENT, "")
            if name in self.members and not episode.fault:
                member, result = self.members[name], score(episode, episode.labels[TRAINED])
                change = self.k * (result - expected(self.rating, member.rating))
                self.rating, member.rating, member.games = self.rating + change, member.rating - change, member.games + 1
                scores.append(result)
        if self.every and (step + 1) % self.every == 0:
            self._join(f"step-{step + 1}", step)
        for name in [name for name, since in self.left.items() if step >= since + self.run.config.checkpoint_every]:
            shutil.rmtree(self._path(name), ignore_errors=True)
            del self.left[name]
        mean = {"opponent_score": sum(scores) / len(scores)} if scores else {}
        return {"opponents": len(self.members), "opponent_games": len(scores), "policy_rating": self.rating, **mean}

    def _join(self, name: str, step: int) -> None:
        """Add the policy to the pool, all or nothing; the oldest checkpoints of this run beyond `keep` leave the pool."""
        path = self._path(name)
        part = path.with_name(f".{name}")
        for folder in (part, path):  # of a session that ended before its checkpoint
            shutil.rmtree(folder, ignore_errors=True)
        self.run.learner.save(part)
        part.rename(path)
        self.members[name] = Member(self.rating)
        own = sorted((int(member[5:]), member) for member in self.members if member not in self.frozen)
        for _, oldest in own[: -self.keep]:
            del self.members[oldest]
            self.left[oldest] = step

    def state_dict(self) -> dict[str, object]:
        """Return the ratings and the steps in `left`; the policies themselves are in their folders."""
        members = {name: [member.rating, member.games] for name, member in self.members.items()}
        return {"rating": self.rating, "members": members, "left": dict(self.left)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore the ratings.

        Raises:
            BadConfig: an opponent from the caller's folder is missing.
            BadData: the state has a name that no member of this pool can have.
        """
        for name in (*state["members"], *state["left"]):
            if name.startswith("frozen/") and name not in self.frozen:
                raise BadConfig(f"the run has opponent {name!r}; give the folder that holds it: --generation.folder FOLDER")
            if name not in self.frozen and not OWN.fullmatch(name):
                raise BadData(f"the checkpoint names opponent {name[:40]!r}; expected step-N, as this run names its own")
        self.rating, self.left = float(state["rating"]), {name: int(step) for name, step in state["left"].items()}
        rated = {name: Member(float(rating), int(games)) for name, (rating, games) in state["members"].items()}
        self.members = {**{name: Member(FIRST_RATING) for name in self.frozen}, **rated}

    def close(self) -> None:
        """Close the opponents' engine."""
        for engine in self._engines.values():
            engine.close()
        self._engines.clear()


def _of_role(episode: Episode, opponent: str, role: str) -> None:
    """Set a game's result to that of its trained role, and label the episode."""
    episode.labels |= {TRAINED: role, OPPONENT: opponent}
    episode.success = episode.role_success.get(role, False)
    episode.reward = episode.final_rewards.get(role, 0.0)
    if episode.reason in DECIDED:
        episode.reason = DECIDED[not episode.success]


def _check_roles(episodes: Sequence[Episode]) -> None:
    """Check that more than one role acted in at least one of the faultless episodes with several turns.

    Raises:
        BadConfig: the environment plays the other roles itself.
    """
    played = [episode for episode in episodes if not episode.fault and len(episode.turns) > 1]
    if played and all(len({turn.role for turn in episode.turns}) == 1 for episode in played):
        raise BadConfig(
            "generation 'opponents': only one role moved in all episodes of a step; leave the others to the agent: "
            "--env.opponent self"
        )
