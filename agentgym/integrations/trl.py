"""Use our environments with TRL's trainers: datasets of tasks, tool environments, rollout functions, credit per turn.

    from agentgym.integrations.trl import TurnCreditTrainer, dataset, rollout
    trainer = TurnCreditTrainer(model, args=…, train_dataset=dataset("rlvr/Search-v0", "train", 512),
                                rollout_func=rollout("rlvr/Search-v0"), credit="gigpo")

docs/guides/integrations.md compares the ways to combine them.
"""

# trl, datasets and torch are typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportUnknownParameterType=false, reportMissingParameterType=false

import itertools
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
import torch
from datasets import Dataset
from trl.trainer.grpo_trainer import GRPOTrainer

from agentgym import registry
from agentgym.agents.spec import AgentSpec
from agentgym.core.seeding import derive
from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.episodes.episode import Episode, groups
from agentgym.errors import BadConfig
from agentgym.integrations.methods import methods
from agentgym.rollout.loop_runner import LoopRunner
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.rollout.session import Session
from agentgym.trainers.credit.interface import Credit, resolve
from agentgym.trainers.data.segments import Segment, build

PROMPT = "prompt"
REWARD = "episode_reward"
"""Name of the field that passes a rollout's rewards to reward functions."""


def dataset(env: str, split: str = "train", tasks: int = 512, **options: object) -> Dataset:
    """Return the first `tasks` tasks of a split, for both `rollout` and `environment`.

    Each task's id is in the column `task_id`. It is also a field of the prompt's message, which chat templates ignore,
    because TRL passes only prompts to a rollout function.
    """
    environment = registry.make(env, split=split, **options)
    listed = environment.up_to(tasks, split)
    environment.close()
    rows = [{PROMPT: [{"role": "user", "content": "", "task_id": task.id}], "task_id": task.id} for task in listed]
    return Dataset.from_list(rows)


def environment(env: str, *, seed: int = 0, **options: Any) -> Callable[[], object]:
    """Return an `environment_factory` for TRL: its objects have the environment's tools as methods, and `get_reward`.

    A call that the environment rejects raises an error, which TRL counts and shows to the model. After the end of the
    episode, calls change nothing. A fault has reward None, which TRL ignores. Seeds depend on the order in which objects are
    created, so attempts at a task differ, and a second run repeats the first.
    """
    numbers = itertools.count()
    with Session(env, **options) as probe:
        tools = dict(probe.tools)

    def reset(self: Any, task_id: str | None = None, **_: object) -> str:
        self.episodes += 1
        return self.session.reset(task_id, seed=derive("trl", seed, self.number, self.episodes))

    def get_reward(self: Any) -> float | None:
        ended_well = not self.session.done or self.session.success is not None
        return self.session.reward if ended_well else None

    def called(self: Any, name: str, arguments: Mapping[str, object]) -> str:
        session: Session = self.session
        self.calls += not session.done
        bad = session.invalid
        answer = session.call(name, arguments)
        if session.invalid > bad:
            raise ValueError(answer)
        return answer

    def begin(self: Any) -> None:
        self.session, self.number, self.episodes, self.calls = Session(env, **options), next(numbers), 0, 0

    members: dict[str, object] = {"__init__": begin, "reset": reset, "get_reward": get_reward}
    name = registry.full_id(env).rpartition("/")[2].rpartition("-v")[0]
    kind = type(name, (), members | methods(tools, called, reserved=members))

    def made() -> object:
        return kind()

    return made


def rollout(env: str, *, agent: str = "chat", seed: int = 0, engine: Any = None, **options: object) -> "Rollouts":
    """Return a `rollout_func` for TRL: our agents play with the trainer's own model and return the exact sampled tokens.

    `agent` and options that are fields of `AgentSpec` (prompt, tools, turn_tokens …) select the agent. `horizon`,
    `concurrency`, `workers` and `context` limit the rollout; other options are the environment's. With `engine`, sample from
    this token engine instead of the trainer's model; the caller updates its weights.
    """
    return Rollouts(env, agent, seed, engine, options)


class Rollouts:
    """Rollout function for TRL: plays one episode per prompt and returns each as prompt, completion and mask."""

    def __init__(self, env: str, agent: str, seed: int, engine: Any, options: Mapping[str, Any]) -> None:
        left = dict(options)
        fields = ("prompt", "tools", "history", "window_turns", "observation_tokens", "turn_tokens")
        self.spec = AgentSpec(agent, **{name: left.pop(name) for name in fields if name in left})
        self.horizon: int | None = left.pop("horizon", None)
        self.context: int | None = left.pop("context", None)
        config = RolloutConfig(left.pop("concurrency", 64), left.pop("workers", 2))
        self.name = registry.full_id(env)
        self.pool = RolloutPool({self.name: registry.Maker(env, left)}, config)
        self.engine, self.seed = engine, seed
        self.episodes: list[Episode] = []
        """Episodes of the last batch, in the order of its prompts."""
        self._loop = LoopRunner()
        self._own = engine is None

    def __call__(self, prompts: list[Any], trainer: Any) -> dict[str, Any]:
        """Play an episode for each prompt and return the fields that TRL expects; `env_mask` is 1 for sampled tokens."""
        model: Any = trainer.accelerator.unwrap_model(trainer.model)
        training, step = model.training, trainer.state.global_step
        probe = self.pool.probe(self.name)
        tasks = [probe.find(_task_id(prompt)) for prompt in prompts]
        seed = derive("trl", self.seed, step, trainer.accelerator.process_index, training)
        seen: Counter[str] = Counter()
        jobs: list[Job] = []
        for task in tasks:
            jobs.append(Job(task, seen[task.id], seed, task.id, self.name, self.horizon))
            seen[task.id] += 1
        model.eval()
        try:
            self.episodes = self._loop.run(self.pool.collect(self._agent(trainer, model, step), jobs))
        finally:
            model.train(training)
        stop = trainer.processing_class.eos_token_id
        rows = [self._row(episode, stop) for episode in self.episodes]
        return {name: [row[name] for row in rows] for name in rows[0]}

    def _agent(self, trainer: Any, model: Any, step: int) -> Any:
        if self.engine is None:
            self.engine = HFEngine(
                model, trainer.processing_class, context=self.context, device=str(trainer.accelerator.device)
            )
        if self._own:
            self._loop.run(self.engine.load_weights(model.named_parameters(), step))
        sampling = Sampling(temperature=trainer.args.temperature, max_tokens=self.spec.reply_tokens)
        return self.spec.make(self.engine, sampling, trainer.processing_class)

    def _row(self, episode: Episode, stop: int) -> dict[str, object]:
        """Return an episode as TRL's fields; an episode without trainable tokens becomes a single masked stop token."""
        if episode.fault or not any(turn.output_ids for turn in episode.turns):
            return _fields([stop], [stop], [0.0], [0], None if episode.fault else episode.reward)
        row = _whole(episode)
        start = len(episode.turns[0].calls[0].prompt_ids)
        ids, logprobs = row.ids.tolist(), np.nan_to_num(row.logprobs).tolist()
        mask = row.mask.astype(int).tolist()
        return _fields(ids[:start], ids[start:], logprobs[start:], mask[start:], episode.reward)

    def close(self) -> None:
        """Close environments and worker processes."""
        self._loop.close(self.pool.close)


def episode_reward(completions: Sequence[object], **fields: Any) -> list[float | None]:
    """Reward function for TRL: return the reward of each episode that `rollout` played, None for a fault."""
    return fields[REWARD]


class TurnCreditTrainer(GRPOTrainer):
    """TRL's GRPOTrainer with credit per turn of an episode.

    With `rollout_func=rollout(…)`, `credit` (a name or MODULE:NAME, with `credit_options`) computes an advantage for each
    turn instead of TRL's one per episode; `reward_funcs` default to `episode_reward` and are logged only. With
    `environment_factory=environment(…)`, tokens sampled after the end of an episode are not trained on.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        *arguments: Any,
        credit: str = "",
        credit_options: Mapping[str, object] | None = None,
        **options: Any,
    ) -> None:
        rollouts = options.get("rollout_func")
        if credit and not isinstance(rollouts, Rollouts):
            raise BadConfig(
                f"credit {credit!r} needs rollout_func=rollout(…): an environment_factory has one reward an episode"
            )
        if credit_options and not credit:
            raise BadConfig("credit_options go with credit")
        self.credit: Credit | None = resolve(credit, **(credit_options or {})) if credit else None
        if self.credit is not None and self.credit.needs:
            raise BadConfig(f"credit {credit!r} needs {', '.join(self.credit.needs)}, which TRL's trainer does not compute")
        if reward_funcs is None and isinstance(rollouts, Rollouts):
            reward_funcs = episode_reward
        super().__init__(model, reward_funcs, *arguments, **options)
        if self.credit is not None and self.args.use_liger_kernel:
            raise BadConfig("use_liger_kernel takes one advantage an episode: leave it off with credit")

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output, model = super()._generate_and_score_completions(inputs), cast("Any", self.model)
        if isinstance(self.rollout_func, Rollouts):
            played = self.rollout_func.episodes
            won = [float(bool(episode.success)) for episode in played if not episode.fault]
            mode = "train" if model.training else "eval"
            self._metrics[mode]["episodes/success"].append(float(np.mean(won)) if won else 0.0)
            self._metrics[mode]["episodes/faults"].append(sum(episode.fault for episode in played) / len(played))
            if self.credit is not None and model.training:
                output["advantages"] = self._by_turn(played, output["completion_ids"])
        return output

    def _by_turn(self, episodes: list[Episode], completions: torch.Tensor) -> torch.Tensor:  # [episodes, tokens]
        """Return the advantage of each token of the completions, [episodes, tokens]; 0 for tokens that are not trained on.

        Raises:
            BadConfig: the episodes of this process are not whole groups.
        """
        size = int(self.num_generations or 1)
        if len(episodes) % size:
            raise BadConfig(
                f"{len(episodes)} episodes a process are not whole groups of {size}: "
                "make per_device_train_batch_size × steps_per_generation a multiple of num_generations"
            )
        advantages = torch.zeros(completions.shape, dtype=torch.float32)
        grouped = groups(episodes)
        places = {id(turn): place for place, episode in enumerate(episodes) for turn in episode.turns}
        assert self.credit is not None
        for group, arrays in zip(grouped, self.credit(grouped, step=self.state.global_step), strict=True):
            for episode, array in zip(group, arrays, strict=True):
                for row in build([episode], [array]):
                    start = len(episode.turns[0].calls[0].prompt_ids)
                    values = torch.from_numpy(row.advantages[start:])
                    advantages[places[id(episode.turns[0])], : len(values)] = values
        return advantages.to(completions.device)

    def _tool_call_loop(self, *arguments: Any, **options: Any) -> Any:
        answers = super()._tool_call_loop(*arguments, **options)
        for mask, messages, played in zip(answers[0], answers[1], self.environments or (), strict=bool(self.environments)):
            session = getattr(played, "session", None)
            if isinstance(session, Session) and session.done:
                _end(mask, messages, played.calls)
        return answers


def _end(mask: list[int], messages: Sequence[Mapping[str, object]], calls: int) -> None:
    """Set the mask of tokens sampled after the episode's end to 0.

    The episode ended with call number `calls`. Each run of zeros in the mask stands for the tool results of one turn.
    """
    results = rounds = 0
    for before, message in itertools.pairwise(messages):
        if message["role"] == "tool":
            rounds += before["role"] != "tool"
            results += 1
            if results == calls:
                break
    else:
        return  # the results of that call did not fit, and nothing came after them
    place = 0
    for _ in range(rounds):
        place += mask[place:].index(0)
        following = mask[place:]
        place += following.index(1) if 1 in following else len(following)
    mask[place:] = [0] * len(mask[place:])


def _fields(
    prompt: list[int], completion: list[int], logprobs: list[float], mask: list[int], reward: float | None
) -> dict[str, Any]:
    return {"prompt_ids": prompt, "completion_ids": completion, "logprobs": logprobs, "env_mask": mask, REWARD: reward}


def _whole(episode: Episode) -> Segment:
    rows = build([episode])
    if len(rows) != 1:
        raise BadConfig(
            f"an episode came as {len(rows)} rows of tokens, and TRL's rollout_func takes one: use agent='chat' with "
            "history='keep', or agentgym.integrations.trl_async, which has a sample a turn"
        )
    return rows[0]


def _task_id(prompt: object) -> str:
    task_id = prompt[-1].get("task_id") if isinstance(prompt, list) and prompt else None
    if not isinstance(task_id, str):
        raise BadConfig("a prompt names no task: make the dataset with agentgym.integrations.trl.dataset")
    return task_id
