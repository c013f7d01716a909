"""The real classes of verl: our loop over a server that is made up, and its estimator on what the loop returns."""

import asyncio
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("verl", reason="verl is not installed: ./dev test-integrations verl")
import torch
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import DictConfigWrap
from verl.trainer.ppo.core_algos import get_adv_estimator_fn
from verl.workers.rollout.replica import TokenOutput

from agentgym.engines import Sampling
from agentgym.engines.hf.engine import HFEngine
from agentgym.integrations.verl import NAME, AgentgymLoop, Meeting, dataset
from agentgym.trainers.model.policy import PolicySize, init_policy, load_policy

ENV = "rlvr/GuessNumber-v0"


class Servers:
    """Stands for verl's servers: a small model in this process."""

    def __init__(self, engine: HFEngine) -> None:
        self.engine = engine
        self.fails = False

    async def generate(self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any]) -> TokenOutput:
        if self.fails and request_id.split("#")[1] == "1":
            return TokenOutput(token_ids=[], log_probs=[], stop_reason="aborted")
        sampling = Sampling(temperature=sampling_params["temperature"], max_tokens=sampling_params["max_tokens"])
        done = await self.engine.generate(prompt_ids, sampling, request_id)
        return TokenOutput(token_ids=done.ids, log_probs=done.logprobs, stop_reason="completed")


def loop_over(servers: Servers, tokenizer: Any, credit: str) -> AgentgymLoop:
    rollout = {
        "prompt_length": 512,
        "response_length": 512,
        "n": 3,
        "custom": {NAME: {"credit": credit, "turn_tokens": 6, "horizon": 3}},
    }
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}, "data": {}})
    wrapped = DictConfigWrap(config=config)
    return AgentgymLoop(wrapped, servers, tokenizer, None, None, DictConfigWrap(config=config.data))


def test_sessions_of_a_prompt_meet_and_each_turn_has_its_advantage(tmp_path: Path) -> None:
    folder = init_policy(ENV, tmp_path / "p", size=PolicySize(64, 1, 2, 64, 400, 1024), episodes=20)
    model, tokenizer = load_policy(folder)
    servers = Servers(HFEngine(model, tokenizer))
    row = dataset(ENV, "train", 2)[1]
    params = {"temperature": 0.7, "top_p": 1.0, "top_k": -1}

    async def sessions(**more: Any) -> list[Any]:
        loops = [loop_over(servers, tokenizer, "credits:by_place") for _ in range(3)]
        runs = [loop.run(params, session_id=n, uid="u", **{**row, **more}) for n, loop in enumerate(loops)]
        return await asyncio.gather(*runs, return_exceptions=True)

    async def main() -> None:
        outputs = await sessions()
        assert not Meeting.open
        for attempt, output in enumerate(outputs):
            fields = output.as_dict()
            mask = fields["response_mask"]
            assert "by_token" not in fields and output.num_turns == 7
            advantages, _ = get_adv_estimator_fn(NAME)(token_level_rewards=fields["rm_scores"], response_mask=mask)
            runs = [advantages[span].unique().tolist() for span in spans(mask)]
            assert runs == [[(k + 1.0) * (-1) ** attempt] for k in range(3)]  # each turn its own number
            assert float(advantages[mask == 0].abs().sum()) == 0.0
            assert torch.isfinite(fields["rollout_log_probs"]).all()
            assert fields["extra_fields"]["reward_extra_info"]["turns"] == 3
        held_out = {**row, "extra_info": {**row["extra_info"], "train": False}}
        alone = await loop_over(servers, tokenizer, "grpo").run(params, uid="v", session_id=0, **held_out)
        assert alone.as_dict()["rm_scores"][-1] == alone.reward_score  # a validation waits for nobody
        servers.fails = True
        outputs = await sessions()
        assert isinstance(outputs[1], Exception) and not Meeting.open  # the others did not wait for it
        assert sum(abs(value) for value in outputs[0].by_token) > 0
        for pool in AgentgymLoop.pools.values():
            pool.close()

    asyncio.run(main())


def spans(mask: torch.Tensor) -> list[slice]:
    edges = np.flatnonzero(np.diff(np.concatenate([[0], mask.numpy(), [0]])))
    return [slice(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True)]
