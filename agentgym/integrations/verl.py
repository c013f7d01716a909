"""verl (0.9): an agent loop that plays agentgym episodes, and agentgym's credits as its advantages.

    actor_rollout_ref.rollout.agent.default_agent_loop=agentgym
    algorithm.adv_estimator=agentgym                      # takes the advantages that the agent loop computed
    +actor_rollout_ref.rollout.custom.agentgym.env=rlvr/Search-v0 …credit=gigpo
    VERL_USE_EXTERNAL_MODULES=agentgym.integrations.verl  # in every process

The training data are the rows of `dataset`. All sessions of a prompt run in one worker, and each waits for the others.
"""

# verl is typed in part only
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeStubs=false, reportMissingImports=false, reportUntypedBaseClass=false
# pyright: reportUnknownParameterType=false, reportUntypedFunctionDecorator=false, reportIncompatibleMethodOverride=false

import asyncio
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput
from verl.experimental.agent_loop.agent_loop import register as register_loop
from verl.trainer.ppo.core_algos import register_adv_est

from agentgym import registry
from agentgym.agents.spec import AgentSpec
from agentgym.engines import Completing, Completion, Request, Sampling
from agentgym.episodes.episode import Episode, groups
from agentgym.episodes.stored_env import of_dataset
from agentgym.errors import BadConfig, Fault, Reason
from agentgym.rollout.play import Job
from agentgym.rollout.pool import RolloutConfig, RolloutPool
from agentgym.trainers.credit.interface import Credit, resolve
from agentgym.trainers.data.segments import build

NAME = "agentgym"


def dataset(
    env: str, split: str = "train", tasks: int = 512, *, train: bool = True, **options: object
) -> list[dict[str, object]]:
    """Return rows for a Parquet file of verl: the first `tasks` tasks of a split, with a prompt that the loop replaces.

    Use `train=False` for `data.val_files`: verl does not report validation to the loop, which would wait for a whole group.
    """
    environment = registry.make(env, split=split, **options)
    listed = environment.up_to(tasks, split)
    environment.close()
    row = {"prompt": [{"role": "user", "content": ""}], "data_source": env, "agent_name": NAME, "reward_model": {}}
    facts = {"env": env, "options": {**options, "split": split}, "train": train}
    return [{**row, "extra_info": {**facts, "task_id": task.id}} for task in listed]


@register_adv_est(NAME)
def advantages(
    token_level_rewards: torch.Tensor, response_mask: torch.Tensor, **_: object
) -> tuple[torch.Tensor, torch.Tensor]:
    """Advantage estimator of verl: return the advantages that the loop stored in place of rewards, one per token.

    Both arguments are [rows, response tokens], and so are both results, which are equal.
    """
    advantages_by_token = token_level_rewards * response_mask
    return advantages_by_token, advantages_by_token


class Output(AgentLoopOutput):
    """An episode as verl's output, with an advantage for each response token."""

    by_token: list[float] = []  # noqa: RUF012  # pydantic copies it

    def as_dict(self) -> dict[str, object]:
        """Return verl's fields, with the advantages as `rm_scores`."""
        output = super().as_dict()
        output.pop("by_token", None)
        if self.by_token:
            output["rm_scores"] = torch.tensor(self.by_token, dtype=torch.float32)
        return output


class Meeting:
    """Barrier at which the episodes of a group wait for one another and get their advantages."""

    open: dict[str, "Meeting"] = {}  # noqa: RUF012  # of this process, by the prompt's uid

    def __init__(self, size: int, credit: Credit) -> None:
        self.size, self.credit = size, credit
        self.episodes: list[Episode] = []
        self.left = size
        self.ready = asyncio.Event()
        self.advantages: dict[int, Any] = {}

    @classmethod
    async def attend(cls, uid: str, size: int, credit: Credit, episode: Episode | None) -> object:
        """Wait until the group is complete and return this episode's advantages.

        The result is None for a fault, and if fewer than two episodes ended without a fault.

        Every session must call this exactly once, so that no other session waits forever; a failed session passes None.
        """
        meeting = cls.open.setdefault(uid, cls(size, credit))
        if episode is not None and not episode.fault:
            meeting.episodes.append(episode)
        meeting.left -= 1
        if not meeting.left:
            cls.open.pop(uid, None)
            meeting.decide()
        await meeting.ready.wait()
        return meeting.advantages.get(id(episode))

    def decide(self) -> None:
        """Compute the advantages of all episodes and release the waiting sessions."""
        try:
            if len(self.episodes) > 1:
                grouped = groups(self.episodes)
                for group, arrays in zip(grouped, self.credit(grouped), strict=True):
                    self.advantages |= {id(e): array for e, array in zip(group, arrays, strict=True)}
        finally:
            self.ready.set()


class ServerEngine(Completing):
    """verl's servers as a token engine; all requests of an episode go to the server that has cached its prefix."""

    def __init__(self, manager: Any, params: Mapping[str, object], context: int) -> None:
        self.manager, self.params, self.context = manager, dict(params), context

    async def complete(self, request: Request) -> Completion:
        """Return one completion, with the log-probability of each token when it was sampled.

        Raises:
            Fault: the server aborted the request.
        """
        params = {**self.params, "max_tokens": request.sampling.max_tokens, "logprobs": True}
        out = await self.manager.generate(request_id=request.session, prompt_ids=request.prompt_ids, sampling_params=params)
        ids = list(out.token_ids)
        if out.stop_reason == "aborted" or not ids:
            raise Fault("verl's server aborted the request", reason=Reason.ENGINE)
        ended = ids[-1] in request.sampling.stop_ids
        return Completion(ids, list(out.log_probs or ()), "stop" if ended else "length")

    def abort(self, session: str) -> None:
        """Do nothing: verl aborts its own requests."""

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


@register_loop(NAME)  # pyright: ignore[reportUntypedClassDecorator]  # verl is not typed
class AgentgymLoop(AgentLoopBase):
    """Agent loop of verl that plays one session of a prompt.

    Its options are in `actor_rollout_ref.rollout.custom.agentgym`.
    """

    pools: dict[str, RolloutPool] = {}  # noqa: RUF012  # of this process

    async def run(self, sampling_params: dict[str, object], **row: Any) -> AgentLoopOutput:
        """Play an episode, wait for its group, and return the tokens with their advantages.

        Raises:
            BadConfig: the credit works on whole batches, or needs values that only a trainer computes.
        """
        facts, size = dict(row["extra_info"]), int(self.rollout_config.n)
        options = dict((self.rollout_config.get("custom") or {}).get(NAME) or {})
        credit = resolve(str(options.pop("credit", "grpo")), **dict(options.pop("credit_options", None) or {}))
        if credit.scope != "group" or credit.needs:
            raise BadConfig(f"credit {credit.name!r}: expected one that sees a group at a time and needs nothing computed")
        training = bool(facts.get("train"))
        episode: Episode | None = None
        try:
            episode = await self._played(sampling_params, row, facts, options)
        finally:
            advantages = await Meeting.attend(str(row["uid"]), size, credit, episode) if training else None
        return self._output(episode, advantages, training)

    async def _played(
        self, params: Mapping[str, Any], row: Mapping[str, Any], facts: Mapping[str, Any], options: dict[str, Any]
    ) -> Episode:
        caller = {key: options.pop(key, None) for key in ("env", "env_options")}
        env, env_options = of_dataset(facts, caller)  # a dataset may come from a stranger
        name = registry.full_id(env)
        maker = registry.Maker(name, env_options)
        pool = self.pools.setdefault(repr(maker), RolloutPool({name: maker}, RolloutConfig()))
        context = int(self.rollout_config.prompt_length + self.rollout_config.response_length)
        horizon = options.pop("horizon", None)
        settings: dict[str, Any] = {"turn_tokens": int(self.rollout_config.response_length), **options}
        spec = AgentSpec(**settings)
        sampling = Sampling(temperature=float(params.get("temperature", 1.0)), max_tokens=spec.reply_tokens)
        agent = spec.make(ServerEngine(self.server_manager, params, context), sampling, self.tokenizer)
        task, uid = pool.probe(name).find(str(facts["task_id"])), str(row.get("uid", ""))
        job = Job(task, int(row.get("session_id", 0)), 0, uid or task.id, name, horizon)
        (episode,) = await pool.collect(agent, [job])
        if episode.fault:
            raise Fault(f"{episode.reason}: {episode.error}")
        return episode

    def _output(self, episode: Episode | None, advantages: Any, training: bool) -> AgentLoopOutput:
        assert episode is not None
        rows = build([episode], None if advantages is None else [advantages])
        if len(rows) != 1:
            raise BadConfig(f"an episode came as {len(rows)} rows, and verl's loop takes one: use agent=chat, history=keep")
        row, most = rows[0], int(self.rollout_config.response_length)
        start = len(episode.turns[0].calls[0].prompt_ids)
        span = slice(start, start + most)
        by_token = row.advantages[span] * row.mask[span] if advantages is not None else np.zeros(len(row.ids[span]))
        extra = {"reward": episode.reward, "success": float(bool(episode.success)), "turns": len(episode.turns)}
        return Output(
            prompt_ids=row.ids[:start].tolist(),
            response_ids=row.ids[span].tolist(),
            response_mask=row.mask[span].astype(int).tolist(),
            response_logprobs=np.nan_to_num(row.logprobs[span]).tolist(),
            reward_score=episode.reward,
            num_turns=2 * len(episode.turns) + 1,
            metrics=AgentLoopMetrics(),
            extra_fields={"reward_extra_info": extra},
            by_token=by_token.tolist() if training else [],
        )
