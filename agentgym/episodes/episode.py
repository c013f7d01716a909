"""Results of rollouts: turns, episodes, groups, and their JSON lines."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import IO, Any

from agentgym.core.folders import end_of_lines, hold
from agentgym.core.hints import Hint, stored_hint
from agentgym.core.outcome import Finish, Info, RoleReward
from agentgym.episodes.checks import FAULTS, check_fields, check_turn, of_evaluation, repeated
from agentgym.episodes.prompt_ids import Prompt, shared
from agentgym.errors import BadData, Reason

FORMAT = 1
_ALWAYS = ("prompt_ids",)
_PROMPTS = (*_ALWAYS, "plain_ids")
_SOMETIMES = ("turns", "hint", "forks", "role_outcomes")  # stored in another form, or only if not empty
DECIDED = (Reason.SUCCESS, Reason.FAILURE)
"""Reasons of an episode that its task decided: `success`, and `failure` for a role that did not succeed."""
_OTHER_LINE_ENDS = {mark: f"\\u{mark:04x}" for mark in (0x85, 0x2028, 0x2029)}  # str.splitlines splits at these too
STARTED = "start"  # the label of an episode that began inside a demonstration; branches have `forks` instead
TRAINED = "trained_role"  # the label of an episode in which frozen opponents play the other roles
MOST_FAULTS = 0.01
"""Share of faults above which a success rate is not comparable with others, because faults have an unknown outcome."""


@dataclass(slots=True)
class Turn:
    """One action in the environment: the observation before it, the action, and its result."""

    observation: str
    """The text the agent acted on."""
    state_key: str | None = None
    """Hash of the environment's state before the action; None if the state cannot be read."""
    admissible: int | None = None
    """Number of admissible commands before the action; None if they are not a finite list."""
    prompt_ids: Sequence[int] = field(default_factory=list[int])
    """Exact prompt token ids; in an episode, a `Prompt` that shares its beginning with earlier ones."""
    output_ids: list[int] = field(default_factory=list[int])
    """Exact sampled token ids, including the stop token."""
    logprobs: list[float] = field(default_factory=list[float])
    """`log_softmax(logits / temperature)` of each sampled token, under `policy_version`."""
    messages: list[dict[str, object]] = field(default_factory=list[dict[str, object]])
    """Chat messages that this turn added to the prompt."""
    text: str = ""
    """The reply as text."""
    reasoning: str = ""
    """The model's thoughts, if a server reports them separately from the reply."""
    action: str = ""
    """The action sent to the environment."""
    parsed: bool = True
    """True if an action was found in the reply."""
    finish: str = Finish.STOP
    """Reason why generation ended: a `Finish`; episodes from files may have other texts."""
    policy_version: int = 0
    """Version of the weights that sampled the tokens."""
    reward: float = 0.0
    """Reward of the action."""
    rewards: dict[str, float] = field(default_factory=dict[str, float])
    """Named parts of the reward; they sum to it."""
    valid: bool = True
    """True if the environment accepted the action."""
    error: str | None = None
    """Reason why the environment did not accept the action; None if it did."""
    role: str = "agent"
    """Acting role, in environments with several roles."""
    images: list[object] = field(default_factory=list[object])
    """Reserved for environments with images."""
    extra: dict[str, Any] = field(default_factory=dict[str, Any])
    """Arrays for credit; the request's usage if the engine has no tokens; `call`, index of the tool call in its reply."""
    seconds: float = 0.0
    """Wall-clock seconds of the turn, which differ between runs that are otherwise identical."""
    notes: list["Turn"] = field(default_factory=list["Turn"])
    """Texts that the model wrote for itself before acting, such as summaries. The environment never sees them."""
    plain_ids: Sequence[int] = field(default_factory=list[int])
    """Prompt token ids without the hint, in an episode with a hint; otherwise empty."""

    def record_observation(self, observation: str, info: Info, role: str) -> None:
        """Record the observation before the action; the reply was recorded by the agent's conversation."""
        self.observation, self.state_key, self.role = observation, info["state_key"], role
        self.admissible = None if info["admissible"] is None else len(info["admissible"])

    def record_result(self, reward: float, info: Info, seconds: float) -> None:
        """Record the result of the action; the rollout calls this once per turn."""
        self.reward, self.rewards, self.valid, self.error = reward, info["rewards"], info["valid"], info["error"]
        self.seconds = seconds

    def copy_result(self, other: "Turn") -> None:
        """Copy state key and result of the action from `other`, the turn that this one rewrites for another agent."""
        self.reward, self.rewards, self.valid, self.error = other.reward, other.rewards, other.valid, other.error
        self.state_key = other.state_key

    def pay(self, name: str, value: float) -> None:
        """Add `value` to the reward, as its named part `name`."""
        self.rewards = {**self.rewards, name: self.rewards.get(name, 0.0) + value}
        self.reward += value

    @property
    def calls(self) -> list["Turn"]:
        """All model calls of this turn in order: its notes, then the turn itself."""
        return [*self.notes, self]

    @property
    def sampled(self) -> int:
        """Number of tokens sampled in this turn, including notes."""
        return sum(len(call.output_ids) for call in self.calls)


@dataclass(slots=True)
class Episode:
    """One attempt at one task."""

    env: str
    """Registered id of the environment."""
    task_id: str
    group_id: str
    """Id shared by the attempts that are compared with one another."""
    seed: int
    attempt: int = 0
    turns: list[Turn] = field(default_factory=list[Turn])
    instruction: str = ""
    split: str = ""
    labels: dict[str, str] = field(default_factory=dict[str, str])
    """Labels by which results are grouped, such as the task's `type` and `difficulty`."""
    final_observation: str = ""
    final_state_key: str | None = None
    reward: float = 0.0
    """Sum of the turns' rewards; in a view (see `view`), those of one role."""
    final_rewards: dict[str, float] = field(default_factory=dict[str, float])
    """Total reward by role."""
    role_success: dict[str, bool] = field(default_factory=dict[str, bool])
    """Success by role; empty after a fault, or if there is a single role."""
    role_outcomes: dict[str, float] = field(default_factory=dict[str, float])
    """Part of `final_rewards` that the outcome contributed, by role; empty if `role_success` is empty."""
    metrics: dict[str, float] = field(default_factory=dict[str, float])
    """Last value of each measure that the environment reported without paying a reward for it."""
    success: bool | None = None
    """True or False; None before the end, and if a fault or pruning ended the episode."""
    reason: str = ""
    """Reason why the episode ended: a `Reason`; empty before the end. Episodes from files may have other texts."""
    horizon: int = 0
    error: str | None = None
    """Error message of a fault, or of a failure that the agent's own actions or text caused; otherwise None."""
    hint: Hint | None = None
    """Hint for the agent, in training only; success rates exclude episodes with a hint."""
    forks: list[list[int]] = field(default_factory=list[list[int]])
    """Forks from other attempts of the group, earliest first: [attempt, turn, seed]. That attempt, with that seed,
    played the turns from the previous fork up to `turn`. This attempt played the rest.
    """
    format: int = FORMAT

    def end(self, totals: Mapping[str, float], outcomes: Mapping[str, RoleReward]) -> None:
        """Record each role's total reward and, with several roles, each one's success (False if it is not in `outcomes`)."""
        self.final_rewards = dict(totals)
        if len(totals) > 1 and self.success is not None:
            by_role = {role: outcomes.get(role, RoleReward(0.0, success=False)) for role in totals}
            self.role_outcomes = {role: outcome.reward for role, outcome in by_role.items()}
            self.role_success = {role: outcome.success for role, outcome in by_role.items()}
        self.reward = sum((turn.reward for turn in self.turns), 0.0)

    def pay_last(self, amount: float, parts: dict[str, float]) -> None:
        """Replace all rewards of the episode by one reward, with its named parts, at the last turn."""
        for turn in self.turns:
            turn.reward, turn.rewards = 0.0, {}
        self.reward, self.final_rewards = amount, dict.fromkeys(self.final_rewards, 0.0)
        self.role_outcomes = dict.fromkeys(self.role_outcomes, 0.0)
        if self.turns:
            last = self.turns[-1]
            last.reward, last.rewards = amount, parts
            self.final_rewards[last.role] = amount

    @property
    def shared(self) -> int:
        """Number of turns at the beginning that other attempts played; 0 unless this episode is a branch."""
        return self.forks[-1][1] if self.forks else 0

    def origin_of(self, turn: int) -> int:
        """Return the number of the attempt that played turn `turn` (counted from 0)."""
        return next((attempt for attempt, end, _ in self.forks if turn < end), self.attempt)

    @property
    def sampled(self) -> int:
        """Number of tokens sampled for this attempt, excluding turns that other attempts played."""
        return sum(turn.sampled for turn in self.turns[self.shared :])

    @property
    def started(self) -> bool:
        """True if the episode began inside a demonstration, so that its success is not due to the policy alone."""
        return STARTED in self.labels

    @property
    def fault(self) -> bool:
        """True if something other than the model ended the episode; it is never trained on and never counts as a failure."""
        return self.reason in FAULTS

    def add(self, turn: Turn) -> None:
        """Append a turn; its prompt is stored as the tokens that it adds to the previous prompt and reply."""
        last = self.turns[-1] if self.turns else None
        before, plain = (last.prompt_ids, last.plain_ids) if last else ((), ())
        for call in (*turn.notes, turn):
            before = call.prompt_ids = shared(before, call.prompt_ids)
            if call.plain_ids:
                plain = call.plain_ids = shared(plain, call.plain_ids)
        self.turns.append(turn)

    def to_json(self) -> str:
        """Return the episode as one JSON line. Prompts are stored as added tokens, and all Unicode line ends are escaped."""
        raw = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in _SOMETIMES}
        raw |= {"hint": asdict(self.hint)} if self.hint else {}
        raw |= {"forks": self.forks} if self.forks else {}
        raw |= {"role_outcomes": self.role_outcomes} if self.role_outcomes else {}
        previous: dict[str, list[int]] = {name: [] for name in _PROMPTS}
        turns: list[dict[str, object]] = []
        for turn in self.turns:
            *notes, entry = (_shallow(call) for call in turn.calls)
            for written in (*notes, entry):
                for name in _PROMPTS if "plain_ids" in written else _ALWAYS:
                    prompt = list(written[name])
                    common = _common_prefix(previous[name], prompt)
                    written[name] = [common, prompt[common:]]
                    previous[name] = prompt + written["output_ids"]
            turns.append({**entry, "notes": [{**note, "notes": []} for note in notes]} if notes else entry)
        line = json.dumps({**raw, "turns": turns}, ensure_ascii=False, default=_jsonable)
        try:
            line.encode()
        except UnicodeEncodeError:  # a lone surrogate, which files do not accept: escape it
            return json.dumps(json.loads(line))
        return line.translate(_OTHER_LINE_ENDS)

    @staticmethod
    def from_json(line: str) -> "Episode":
        """Parse an episode from one JSON line.

        Raises:
            BadData: the line is not an episode in this format.
        """
        try:
            raw: object = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise BadData(f"not an episode: {error}") from error
        return _episode(raw)


@dataclass(slots=True)
class Group:
    """Episodes of one (task, role), which a credit algorithm compares with one another."""

    task_id: str
    role: str
    episodes: list[Episode]

    def __iter__(self) -> Iterator[Episode]:
        return iter(self.episodes)

    def __len__(self) -> int:
        return len(self.episodes)

    def __getitem__(self, index: int) -> Episode:
        return self.episodes[index]


def fault_share(episodes: Sequence[Episode]) -> float:
    """Return the share of episodes that ended as faults; 0 if there are none."""
    return sum(episode.fault for episode in episodes) / len(episodes) if episodes else 0.0


def unhinted(episodes: Iterable[Episode]) -> list[Episode]:
    """Return the episodes without a hint; only they count for success rates."""
    return [episode for episode in episodes if episode.hint is None]


def groups(episodes: Iterable[Episode]) -> list[Group]:
    """Group episodes by (group id, role), in order of first appearance, without faults and frozen opponents."""
    by_id: dict[tuple[str, str], Group] = {}
    for episode in episodes:
        if episode.fault or not episode.turns:
            continue
        for role in dict.fromkeys(turn.role for turn in episode.turns):
            if episode.labels.get(TRAINED, role) == role:
                group = by_id.setdefault((episode.group_id, role), Group(episode.task_id, role, []))
                group.episodes.append(view(episode, role))
    return list(by_id.values())


def view(episode: Episode, role: str) -> Episode:
    """Return an episode as one role sees it, with only that role's turns, reward and success."""
    if not episode.role_success and all(turn.role == role for turn in episode.turns):
        return episode
    values = {f.name: getattr(episode, f.name) for f in fields(episode)}
    values["turns"] = [turn for turn in episode.turns if turn.role == role]
    values["reward"] = episode.final_rewards.get(role, 0.0)
    values["final_rewards"] = {role: values["reward"]}
    if role in episode.role_success:
        values["success"] = episode.role_success[role]
        values["role_success"] = {role: values["success"]}
        values["role_outcomes"] = {role: episode.role_outcomes.get(role, float(values["success"]))}
        if episode.reason in DECIDED:
            values["reason"] = DECIDED[not values["success"]]
    return Episode(**values)


def read_episodes(path: str | Path) -> list[Episode]:
    """Read episodes from a file of JSON lines, without an incomplete last line and without exact repetitions of a line.

    Raises:
        BadData: a line is not an episode, or two different lines are the same attempt.
    """
    path = Path(path)
    evaluation = of_evaluation(path)
    lines = path.read_bytes().split(b"\n")  # a crash may have cut a character in half
    episodes: list[Episode] = []
    seen: dict[tuple[object, ...], bytes] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            raw: Any = json.loads(line.decode("utf-8"))
        except (ValueError, RecursionError) as error:
            if number == len(lines):  # no newline at the end: the write was interrupted
                break
            raise BadData(f"{path}, line {number}: not an episode: {error}") from error
        try:
            episode = _episode(raw)
            if not repeated(raw, line, seen, evaluation=evaluation):
                episodes.append(episode)
        except BadData as error:
            raise BadData(f"{path}, line {number}: {error}") from error
    return episodes


def append_episodes(path: str | Path) -> IO[str]:
    """Open a file of episodes for appending, remove an incomplete last line, and lock the file until it is closed.

    Raises:
        BadConfig: the file is already open for appending, in another process or in this one.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    file = path.open("a", encoding="utf-8")
    try:
        hold(file, f"{path} is being written to by another run: wait for its end, or choose another file")
        with path.open("rb+") as whole:
            whole.truncate(end_of_lines(whole))
    except BaseException:
        file.close()
        raise
    return file


def _shallow(call: Turn) -> dict[str, Any]:
    """Return a turn's fields without notes, not copied; empty `plain_ids` and `reasoning` are left out."""
    left_out = ("notes", *(name for name in ("plain_ids", "reasoning") if not getattr(call, name)))
    return {f.name: getattr(call, f.name) for f in fields(call) if f.name not in left_out}


def _episode(raw: Any) -> Episode:
    # Consumes `raw`. Like `from_json`, it refuses anything that is not an episode.
    try:
        check_fields(raw, FORMAT)
        previous: dict[str, tuple[Prompt, list[int]]] = {name: (Prompt([], 0), []) for name in _PROMPTS}
        entries = raw.pop("turns")
        hint = stored_hint(raw.pop("hint", None))
        episode = Episode(**raw, hint=hint)
        for entry in entries:
            notes = entry.pop("notes", ())
            written = [] if notes == () else [_call(note, previous, []) for note in notes]
            episode.turns.append(_call(entry, previous, written))
        return episode
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise BadData(f"not an episode: {error}") from error


def _call(raw: dict[str, Any], previous: dict[str, tuple[Prompt, list[int]]], notes: list[Turn]) -> Turn:
    # `previous` has, for each kind of prompt, the prompt before the call and the reply to it.
    check_turn(raw)
    if raw.get("notes"):
        raise TypeError("a note contains notes; expected them in turns alone")
    for name in _PROMPTS if "plain_ids" in raw else _ALWAYS:
        prompt, reply = previous[name]
        raw[name] = prompt = prompt.continued(raw[name], reply)
        previous[name] = prompt, raw.get("output_ids", [])
    raw["notes"] = notes
    raw.setdefault("plain_ids", [])  # like the default, whose type is slow to call
    return Turn(**raw)


def _common_prefix(a: Sequence[int], b: Sequence[int]) -> int:
    n = min(len(a), len(b))
    if a[:n] == b[:n]:
        return n
    return next(i for i in range(n) if a[i] != b[i])


def _jsonable(value: Any) -> object:
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"cannot write {type(value).__name__} to JSON")
