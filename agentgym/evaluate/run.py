"""Resumable evaluations: every finished episode is stored, and only the missing ones are played."""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from agentgym.agents.base import Agent
from agentgym.core.env import TextEnv
from agentgym.core.folders import alone, remove_parts, write_whole
from agentgym.core.garbage import libraries_frozen
from agentgym.core.pool import fingerprint
from agentgym.core.provenance import write_json
from agentgym.core.tasks import Task
from agentgym.episodes.episode import Episode, append_episodes, read_episodes
from agentgym.errors import BadConfig, MissingExtra, no_such
from agentgym.evaluate import choosing, manifest
from agentgym.evaluate.choice import CannotPlay, EvaluationPlan, choose, parts
from agentgym.evaluate.contamination import contamination
from agentgym.evaluate.exploiting import exploitabilities
from agentgym.evaluate.markdown import as_markdown
from agentgym.evaluate.protocol import NOT_COMPARABLE, comparability
from agentgym.evaluate.regret import regrets
from agentgym.evaluate.spending import Price, recorded
from agentgym.evaluate.summary import summarize
from agentgym.harness.description import plays_itself
from agentgym.registry import class_of, full_id, make
from agentgym.rollout.collect import collect, finished
from agentgym.rollout.pool import RolloutConfig

if TYPE_CHECKING:
    from agentgym.harness.agent import HarnessAgent

NOTED = ("met", "adapted")
"""Engine attributes to record: counts of server problems, and parameters that servers rejected."""
EVERY = 2.0  # seconds between two writes of the engine's notes


def evaluate(
    agent: "Agent | HarnessAgent",
    plan: EvaluationPlan,
    folder: str | Path,
    *,
    options: Mapping[str, object] | None = None,
    rollout: RolloutConfig | None = None,
    retry_faults: bool = False,
    regret: bool = False,
    price: Price | None = None,
    say: Callable[[str], None] | None = None,
    started: Callable[[int, int], None] | None = None,
    progress: Callable[[Episode], None] | None = None,
) -> list[Episode]:
    """Play the episodes missing from the folder and return all its episodes.

    Writes `manifest.json`, `contamination.json`, `episodes.jsonl` and, at the end, `summary.json` and `summary.md`.
    `options` identify the agent (model, temperature, prompt) and are added to the manifest with the plan. After an
    interruption the same call resumes; other options raise BadConfig; a larger number of tasks or attempts plays the
    additional episodes. If one of several environments cannot be played here (an extra, a sandbox or the expert is
    missing), it is skipped, and `summary["skipped"]` has the reason by its id.

    `regret` replays every episode against the oracle (`agentgym.evaluate.regret`) for `summary["regret"]` and
    `regret.jsonl`. `price` applies to requests whose cost the server does not report. `say` receives warnings about
    comparability before the first episode; `started` receives the number of stored episodes and the total.

    `summary["votes"]` has the majority vote over several attempts (`agentgym.evaluate.choosing`), and
    `summary["exploitability"]` the exact exploitability in small games (`agentgym.evaluate.exploiting`).
    """
    folder = Path(folder)
    plans = _plans(plan)
    tasks_by_env, skipped = _chosen(plans, agent)  # every name is checked before anything is written
    ids = _ids(tasks_by_env)
    described = {**_described(plan, plans, tasks_by_env), **(options or {})}
    _announce(say, described, plans, tasks_by_env)
    with alone(folder, "evaluation"):
        remove_parts(folder)
        before = manifest.numbers_of_tasks(folder / "manifest.json")
        record = manifest.start(folder, described, skipped)
        checked = _contamination(folder, plans, tasks_by_env, before)
        earlier = _stored(path := folder / "episodes.jsonl", drop_faults=retry_faults)
        if started:
            started(len(earlier), sum(len(tasks) * plans[env].attempts for env, tasks in tasks_by_env.items()))
        with _EngineNotes(folder, record, agent, progress) as notes:
            for env, tasks in tasks_by_env.items():
                done = {(e.task_id, e.attempt) for e in earlier if e.env == ids[env]}
                _play(agent, env, plans[env], tasks, path, rollout or RolloutConfig(64), done, notes.add)
        episodes = read_episodes(path) if path.exists() else []
        about: dict[str, object] = {
            "contamination": checked,
            "comparable": comparability(described, episodes),
            "met": manifest.met(record),
            "price": recorded(price),
            "skipped": skipped,
        }
        about |= _further(plans, tasks_by_env, episodes, agent)
        if regret:
            about["regret"] = _regret(folder, plans, tasks_by_env, episodes)
        _summarize(folder, {**summarize(episodes, price), **about})
        return episodes


def _announce(
    say: Callable[[str], None] | None,
    described: Mapping[str, object],
    plans: Mapping[str, EvaluationPlan],
    tasks_by_env: Mapping[str, list[Task]],
) -> None:
    """Pass the warnings about comparability to `say`, unless it is None."""
    if say:
        for sentence in (*missing_tasks(described, plans, tasks_by_env), *new_wordings(described)):
            say(sentence)


def _plans(plan: EvaluationPlan) -> dict[str, EvaluationPlan]:
    """Return the plan of each environment.

    Raises:
        BadConfig: the plan has options for an environment that it does not play.
    """
    for env in (*plan.env_options, *plan.own):
        if env not in plan.envs:
            raise BadConfig(no_such("environment of the plan's options", env, plan.envs))
    return {env: plan.of(env) for env in plan.envs}


def _play(
    agent: "Agent | HarnessAgent",
    env: str,
    plan: EvaluationPlan,
    tasks: list[Task],
    path: Path,
    rollout: RolloutConfig,
    skip: set[tuple[str, int]],
    progress: Callable[[Episode], None],
) -> None:
    """Play the tasks of one environment and append the episodes to a file, except the (task, attempt) pairs in `skip`."""
    for env_options, part in parts(env, plan, tasks):
        if plays_itself(agent):
            playing = agent.with_options(env_options).play_into(
                path, full_id(env), part, plan.attempts, plan.seed, rollout.concurrency, skip, progress
            )
            finished(playing)
            continue
        with libraries_frozen():
            collect(
                agent,
                env,
                split=tasks[0].split or None,
                tasks=part,
                attempts=plan.attempts,
                seed=plan.seed,
                config=rollout,
                out=path,
                env_options=env_options,
                skip=skip,
                progress=progress,
            )


def _chosen(
    plans: Mapping[str, EvaluationPlan], agent: "Agent | HarnessAgent"
) -> tuple[dict[str, list[Task]], dict[str, str]]:
    """Return the tasks of each environment, and the reason for each environment that cannot be played.

    Raises:
        BadConfig: no environment can be played.
        MissingExtra: the only environment lacks an optional dependency.
        CannotPlay: the only environment lacks the oracle or expert.
    """
    tasks_by_env: dict[str, list[Task]] = {}
    skipped: dict[str, str] = {}
    plays: str = getattr(agent, "plays", "")
    for env, plan in plans.items():
        try:
            tasks_by_env[env] = choose(env, plan, plays)
        except (MissingExtra, CannotPlay) as error:
            if len(plans) == 1:
                raise
            skipped[env] = str(error)
    if not tasks_by_env:
        raise BadConfig(f"none of the environments can be played here: {'; '.join(f'{k}: {v}' for k, v in skipped.items())}")
    return tasks_by_env, skipped


def _ids(names: Iterable[str]) -> dict[str, str]:
    """Return the id that episodes record for each environment, by its name in the plan.

    Raises:
        BadConfig: two names stand for the same environment.
    """
    ids = {name: full_id(name) for name in names}
    first: dict[str, str] = {}
    for name, id in ids.items():
        if (other := first.setdefault(id, name)) != name:
            raise BadConfig(f"{other} and {name} are one environment, {id}, whose episodes would count twice: name it once")
    return ids


def _further(
    plans: Mapping[str, EvaluationPlan],
    tasks_by_env: Mapping[str, list[Task]],
    episodes: list[Episode],
    agent: object,
) -> dict[str, object]:
    """Return the measures that only some environments have, by name and environment."""
    votes = {
        env: choosing.votes(env, parts(env, plans[env], tasks), [e for e in episodes if e.env == full_id(env)])
        for env, tasks in tasks_by_env.items()
        if plans[env].attempts > 1
    }
    exploited = {env: exploitabilities(env, parts(env, plans[env], tasks), agent) for env, tasks in tasks_by_env.items()}
    found = {"votes": votes, "exploitability": exploited}
    return {
        name: known for name, rows in found.items() if (known := {env: row for env, row in rows.items() if row is not None})
    }


def _regret(
    folder: Path, plans: Mapping[str, EvaluationPlan], tasks_by_env: Mapping[str, list[Task]], episodes: list[Episode]
) -> dict[str, object]:
    """Return the summary of regret by environment, and write the regret of every episode to `regret.jsonl`."""
    summaries: dict[str, object] = {}
    lines: list[str] = []
    for env, tasks in tasks_by_env.items():
        id = full_id(env)
        mine = [episode for episode in episodes if episode.env == id]
        summaries[env], rows = regrets(env, parts(env, plans[env], tasks), mine)
        lines += [json.dumps(row) + "\n" for row in rows]
    write_whole(folder / "regret.jsonl", "".join(lines))
    return summaries


def _summarize(folder: Path, summary: Mapping[str, object]) -> None:
    """Write the summary as JSON and as Markdown."""
    write_json(folder / "summary.json", summary)
    write_whole(folder / "summary.md", as_markdown(summary, manifest.read(folder / "manifest.json")))


class _EngineNotes:
    """Writes the engine's problems to the manifest every few seconds, so that a crash loses little."""

    def __init__(
        self,
        folder: Path,
        suite_found: dict[str, Any],
        agent: "Agent | HarnessAgent",
        progress: Callable[[Episode], None] | None,
    ) -> None:
        self.path, self.manifest, self.engine, self.progress = folder / "manifest.json", suite_found, agent.engine, progress
        self.written = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.write()

    def add(self, episode: Episode) -> None:
        """Report a finished episode to the progress callback, and write the notes if it is time."""
        if time.monotonic() > self.written + EVERY:
            self.write()
        if self.progress:
            self.progress(episode)

    def write(self) -> None:
        """Write the engine's notes if they changed."""
        self.written = time.monotonic()
        session: dict[str, Any] = self.manifest["sessions"][-1]
        noted = {name: value for name in NOTED if (value := getattr(self.engine, name, None))}
        if any(session.get(name) != value for name, value in noted.items()):
            session |= json.loads(json.dumps(noted))  # a copy, since the engine continues to change them
            write_json(self.path, self.manifest)


def _described(
    plan: EvaluationPlan, plans: Mapping[str, EvaluationPlan], tasks_by_env: Mapping[str, list[Task]]
) -> dict[str, object]:
    """Return the manifest's entries `envs` (facts by environment), `attempts` and `seed`.

    An environment's facts include `attempts` only if they differ from the plan's.
    """
    envs: dict[str, dict[str, object]] = {}
    for env, tasks in tasks_by_env.items():
        envs[env] = {"split": tasks[0].split, "tasks": len(tasks), "options": plan.options(env)}
        if any(plan.options(env).get(name) is not None for name in ("pool", "pool_file")):
            envs[env]["pool"] = fingerprint(tasks)
        kind = class_of(full_id(env))
        if caps := sorted({*(kind.caps if kind else ())} & {k for k, v in plan.options(env).items() if v is not None}):
            envs[env]["caps"] = caps
        if kind and (unlike := kind.unlike_published(plan.options(env))):
            envs[env]["unlike"] = unlike
        if wordings := _wordings(env, plan.options(env), tasks):
            envs[env]["wordings"] = wordings
        if difficulties := plans[env].difficulties:
            envs[env]["difficulties"] = list(difficulties)
        if plans[env].attempts != plan.attempts:
            envs[env]["attempts"] = plans[env].attempts
    return {"envs": envs, "attempts": plan.attempts, "seed": plan.seed}


def _wordings(env: str, options: Mapping[str, object], tasks: list[Task]) -> list[str]:
    """Return the names of the wordings in which an environment presents the tasks; [] if it has only one wording."""
    kind = class_of(full_id(env))
    if kind is None or kind.wordings_of is TextEnv.wordings_of:
        return []
    made = make(env, **options)
    try:
        return list(made.wordings_of(tasks))
    finally:
        made.close()


def new_wordings(described: Mapping[str, object]) -> list[str]:
    """Return warnings about task wordings that the model was not trained on.

    `described["trained_wordings"]` lists the wordings of the training run; without that entry there is no warning.
    """
    trained = cast("list[str]", described.get("trained_wordings") or [])
    sentences: list[str] = []
    for env, about in cast("dict[str, dict[str, Any]]", described["envs"]).items():
        if trained and (new := [name for name in about.get("wordings", ()) if name not in trained]):
            sentences.append(
                f"warning: {env} plays tasks in the wording {', '.join(map(repr, new))}, and the model was trained on "
                f"{', '.join(map(repr, trained))} alone: its success may be lower for that alone"
            )
    return sentences


def missing_tasks(
    described: Mapping[str, object], plans: Mapping[str, EvaluationPlan], tasks_by_env: Mapping[str, list[Task]]
) -> list[str]:
    """Return warnings about environments with fewer tasks than requested, or than the protocol fixes."""
    there = sum(len(tasks) for tasks in tasks_by_env.values())
    protocol = described.get("protocol")
    if isinstance(protocol, dict):
        fixed = cast("dict[str, Any]", protocol)
        if there == fixed["tasks"]:
            return []
        return [
            f"{there} of {fixed['tasks']} tasks of protocol {fixed['name']} are here: the result will be {NOT_COMPARABLE}"
        ]
    sentences: list[str] = []
    for env, tasks in tasks_by_env.items():
        requested = (plans[env].tasks or 0) * len(plans[env].difficulties or (0,))
        if len(tasks) < requested:
            sentences.append(f"{env}: {len(tasks)} of the {requested} tasks asked for are here, and only these are played")
    return sentences


def _contamination(
    folder: Path, plans: Mapping[str, EvaluationPlan], tasks_by_env: Mapping[str, list[Task]], before: Mapping[str, int]
) -> dict[str, object]:
    """Return the contamination results of all environments; only new environments or new numbers of tasks are checked.

    `before` are the numbers of tasks that earlier sessions checked.
    """
    path = folder / "contamination.json"
    checked = manifest.read_object(path) if path.exists() else {}
    new = {env: tasks for env, tasks in tasks_by_env.items() if env not in checked or before.get(env) != len(tasks)}
    if new:
        checked |= {env: contamination(env, parts(env, plans[env], tasks)) for env, tasks in new.items()}
        write_json(path, checked)
    return checked


def _stored(path: Path, *, drop_faults: bool) -> list[Episode]:
    """Remove an incomplete last line from the file, and faults if `drop_faults`; return the remaining episodes."""
    if not path.exists():
        return []
    append_episodes(path).close()
    episodes = read_episodes(path)
    if drop_faults and any(episode.fault for episode in episodes):
        episodes = [episode for episode in episodes if not episode.fault]
        write_whole(path, "".join(episode.to_json() + "\n" for episode in episodes))
    return episodes
