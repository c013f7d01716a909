"""Agentgym environments as tasks of inspect_ai (0.3), for any model that inspect_ai supports.

# my_eval.py: inspect eval my_eval.py --model openai/gpt-5
from inspect_ai import task
from agentgym.integrations.inspect_ai import environment_task
@task
def sql():
    return environment_task("rlvr/SQL-v0", split="test", tasks=50)
"""

# inspect_ai is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUnknownParameterType=false
# pyright: reportUntypedFunctionDecorator=false, reportGeneralTypeIssues=false, reportCallIssue=false

from collections.abc import Sequence
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageUser,
    GenerateConfig,
    get_model,
)
from inspect_ai.scorer import Score, Target, accuracy, scorer, stderr
from inspect_ai.solver import Generate, TaskState, solver

from agentgym import registry
from agentgym.agents.message_agent import MessageAgent
from agentgym.engines import Completion, Sampling
from agentgym.episodes.usage import Usage
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool

KEY = "agentgym"


def environment_task(
    env: str,
    *,
    split: str = "test",
    tasks: int = 50,
    prompt: str | None = None,
    horizon: int | None = None,
    **options: object,
) -> Task:
    """Return an inspect_ai task with the first `tasks` tasks of a split; other keywords are options of the environment.

    `prompt` is the name or file of one of our prompts (None: the tools determine it), `horizon` the turn limit (None: the
    environment's own).

    A fault becomes an error of the sample, which inspect_ai retries or reports and does not score.
    """
    environment = registry.make(env, split=split, **options)
    listed = environment.up_to(tasks, split)
    environment.close()
    samples = [
        Sample(input=task.instruction or task.id, id=task.id, metadata={"difficulty": task.difficulty}) for task in listed
    ]
    return Task(
        dataset=MemoryDataset(samples, name=env),
        solver=episode(env, {**options, "split": split}, prompt, horizon),
        scorer=success(),
        name=registry.full_id(env).rpartition("/")[2],
    )


@solver
def episode(env: str, options: dict[str, object], prompt: str | None, horizon: int | None) -> Any:
    """Return a solver that plays one episode of the sample's task; each epoch is a separate attempt."""
    name = registry.full_id(env)

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        seat = Seat()
        pool = RolloutPool({name: registry.Maker(env, options)}, RolloutConfig(concurrency=1, workers=1))
        try:
            task = pool.probe(name).find(str(state.sample_id))
            job = Job(task, state.epoch - 1, 0, task.id, name, horizon)
            (played,) = await pool.collect(MessageAgent(seat, prompt=prompt, tools="text"), [job])
        finally:
            pool.close()
        state.messages = seat.messages
        if played.fault:
            raise RuntimeError(f"{played.reason}: {played.error}")
        state.metadata[KEY] = {
            "success": bool(played.success),
            "reward": played.reward,
            "reason": played.reason,
            "turns": len(played.turns),
            "invalid": sum(not turn.valid for turn in played.turns),
            "turn_rewards": [turn.reward for turn in played.turns],
            "metrics": played.metrics,
        }
        state.completed = True
        return state

    return solve


@scorer(metrics=[accuracy(), stderr()])
def success() -> Any:
    """Return a scorer: 1 for a success, otherwise 0, with the reason why the episode ended as explanation."""

    async def score(state: TaskState, target: Target) -> Score:
        result = state.metadata[KEY]
        return Score(value=int(result["success"]), explanation=result["reason"], metadata=result)

    return score


class Seat:
    """The model under evaluation as an agentgym engine."""

    def __init__(self) -> None:
        self.messages: list[ChatMessage] = []

    async def chat(
        self, messages: Sequence[dict[str, Any]], tools: Sequence[dict[str, Any]], sampling: Sampling, session: str
    ) -> Completion:
        """Return the model's reply."""
        kinds: dict[str, Any] = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}
        conversation = [kinds[message["role"]](content=message["content"]) for message in messages]
        config = GenerateConfig(max_tokens=sampling.max_tokens, seed=sampling.seed % 2**31)
        output = await get_model().generate(conversation, config=config)
        self.messages = [*conversation, output.message]
        reasons = {"max_tokens": "length", "model_length": "context", "content_filter": "filter"}
        finish = reasons.get(str(output.stop_reason), "stop")
        usage = output.usage
        counted = None if usage is None else Usage(usage.input_tokens, usage.output_tokens)
        return Completion([], [], finish, text=output.completion, usage=counted)

    def abort(self, session: str) -> None:
        """Do nothing: requests end with their call."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""
