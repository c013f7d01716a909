"""TRL's own trainers, three steps on a CPU: our rollouts with credit a turn, and environments as tools."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("trl", reason="trl, of the extra `train`, is not installed")
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import GRPOConfig, GRPOTrainer

from agentgym.errors import BadConfig
from agentgym.integrations import trl as ours
from agentgym.trainers.model.policy import PolicySize, init_policy

torch.set_num_threads(1)
ENV = "rlvr/GuessNumber-v0"


@pytest.fixture(scope="module")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("policy") / "model"
    size = PolicySize(width=64, layers=1, heads=2, feed_forward=64, vocabulary=400, context=8192)
    return init_policy(ENV, folder, size=size, episodes=20, template="chatml")


def arguments(folder: Path, **changes: Any) -> GRPOConfig:
    settings: dict[str, Any] = {
        "output_dir": str(folder),
        "per_device_train_batch_size": 4,
        "num_generations": 4,
        "max_steps": 3,
        "learning_rate": 1e-3,
        "max_completion_length": 200,
        "report_to": [],
        "use_cpu": True,
        "bf16": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "disable_tqdm": True,
    }
    return GRPOConfig(**settings | changes)


def parts(policy: Path) -> tuple[Any, Any]:
    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32), AutoTokenizer.from_pretrained(policy)


class Kept(ours.TurnCreditTrainer):
    """Keeps what goes into the loss."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        self.batches = [*getattr(self, "batches", []), (output, getattr(self.rollout_func, "episodes", None))]
        return output


def test_three_steps_over_our_rollouts_with_an_advantage_a_turn(policy: Path, tmp_path: Path) -> None:
    model, tokenizer = parts(policy)
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    rollouts = ours.rollout(ENV, turn_tokens=8, horizon=3)
    trainer = Kept(
        model,
        args=arguments(tmp_path),
        processing_class=tokenizer,
        train_dataset=ours.dataset(ENV, "train", 8),
        rollout_func=rollouts,
        credit="tests.fakes.credits:by_place",
    )
    trainer.train()
    assert len(trainer.batches) == 3 and trainer.state.global_step == 3
    assert any(not torch.equal(before[name], tensor) for name, tensor in model.state_dict().items())
    for output, episodes in trainer.batches:
        assert len({e.task_id for e in episodes}) == 1 and [e.attempt for e in episodes] == [0, 1, 2, 3]
        assert len({e.seed for e in episodes}) == 4
        for row, episode in enumerate(episodes):
            start, ids = len(episode.turns[0].prompt_ids), output["completion_ids"][row].tolist()
            assert len(episode.turns) == 3
            wanted = np.zeros(len(ids))
            for k, turn in enumerate(episode.turns):
                span = slice(len(turn.prompt_ids) - start, len(turn.prompt_ids) - start + len(turn.output_ids))
                assert ids[span] == turn.output_ids  # the exact tokens
                wanted[span] = (k + 1) * (-1) ** episode.attempt  # the credit of this turn, and of no other
            assert output["advantages"][row].tolist() == pytest.approx(wanted)
            mask = output["tool_mask"][row] * output["completion_mask"][row]
            assert mask.tolist() == (wanted != 0).astype(int).tolist()
    logged = [entry for entry in trainer.state.log_history if "episodes/success" in entry]
    assert len(logged) == 3 and logged[0]["episodes/faults"] == 0.0
    rollouts.close()


def test_log_probabilities_are_those_of_the_trainer(policy: Path, tmp_path: Path) -> None:
    model, tokenizer = parts(policy)
    trainer = Kept(
        model,
        args=arguments(tmp_path, max_steps=2, temperature=0.7),
        processing_class=tokenizer,
        train_dataset=ours.dataset(ENV, "train", 4),
        rollout_func=ours.rollout(ENV, turn_tokens=6, horizon=2),
    )
    trainer.train()
    output, _ = trainer.batches[-1]  # after an update: the engine's weights are the trainer's
    assert output["advantages"].dim() == 1  # without credit it is TRL's own
    ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
    whole = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
    assert torch.isfinite(output["sampling_per_token_logps"]).all() and ids.shape == whole.shape


class Recomputed(ours.TurnCreditTrainer):
    """Keeps how far TRL's log-probabilities are from those sampled, at each step, and the version that sampled."""

    def _generate_and_score_completions(self, inputs: Any) -> Any:
        output = super()._generate_and_score_completions(inputs)
        ids = torch.cat([output["prompt_ids"], output["completion_ids"]], dim=1)
        whole = torch.cat([output["prompt_mask"], output["completion_mask"]], dim=1)
        with torch.no_grad():
            again, *_ = self._get_per_token_logps_and_entropies(self.model, ids, whole, output["completion_ids"].size(1))
        mask = (output["tool_mask"] * output["completion_mask"]).bool()
        gap = float((again - output["sampling_per_token_logps"])[mask].abs().max())
        played: Any = self.rollout_func
        self.seen = [*getattr(self, "seen", []), (gap, played.engine.policy_version)]
        return output


def test_the_sampled_log_probabilities_are_recomputed_by_trl(policy: Path, tmp_path: Path) -> None:
    model, tokenizer = parts(policy)
    trainer = Recomputed(
        model,
        args=arguments(tmp_path, temperature=0.7, learning_rate=3e-2),
        processing_class=tokenizer,
        train_dataset=ours.dataset(ENV, "train", 4),
        rollout_func=ours.rollout(ENV, turn_tokens=6, horizon=2),
        credit="tests.fakes.credits:by_place",
    )
    trainer.train()
    assert [version for _, version in trainer.seen] == [0, 1, 2]  # the engine is told of every update
    assert max(gap for gap, _ in trainer.seen) < 1e-4


def test_a_fault_is_no_row_to_learn_from(policy: Path) -> None:
    rollouts = ours.rollout(ENV, turn_tokens=4)
    from agentgym import Episode

    row = rollouts._row(Episode("e", "t", "g", 0, reason="crash"), 2)
    assert row == {"prompt_ids": [2], "completion_ids": [2], "logprobs": [0.0], "env_mask": [0], "episode_reward": None}


def test_the_environment_is_tools_a_reward_and_an_end(policy: Path) -> None:
    factory = ours.environment("rlvr/TwentyQuestions-v0", horizon=4)
    env, other = factory(), factory()
    assert env.reset(task_id="train/0/1", prompt=[]) == other.reset(task_id="train/0/1", prompt=[])
    ask, guess = type(env).ask, type(env).guess
    assert ask.__doc__ and "Args:" in ask.__doc__ and guess.__name__ == "guess"
    with pytest.raises(ValueError, match="needs the argument"):  # TRL counts it as a failure, and shows it to the model
        env.ask()
    assert env.get_reward() == 0.0
    answer = next(iter(env.session.env.oracle()))
    env.session.act(answer)
    while not env.session.done:
        env.session.act(next(iter(env.session.env.oracle())))
    assert env.get_reward() == 1.0 and "over" in env.guess(what="again")
    assert env.get_reward() == 1.0
    env.session.success = None  # as after a fault
    assert env.get_reward() is None


def test_three_steps_with_environment_factory(policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model, tokenizer = parts(policy)
    trainer = Kept(
        model,
        args=arguments(tmp_path, max_completion_length=1500, max_tool_calling_iterations=4),
        processing_class=tokenizer,
        train_dataset=ours.dataset("rlvr/TwentyQuestions-v0", "train", 4),
        environment_factory=ours.environment("rlvr/TwentyQuestions-v0", horizon=2),
    )
    call = tokenizer.encode('<tool_call>\n{"name": "ask", "arguments": {"question": "x"}}\n</tool_call><|im_end|>')
    rounds: list[int] = []

    def says(prompt_ids: list[list[int]], *_: Any, **__: Any) -> Any:
        rounds.append(len(prompt_ids))
        return [list(call) for _ in prompt_ids], None

    monkeypatch.setattr(trainer, "_generate_single_turn", says)  # an untrained model never writes a call
    trainer.train()
    assert trainer.state.global_step == 3
    output, _ = trainer.batches[0]
    mask = (output["tool_mask"] * output["completion_mask"]).sum(dim=1).tolist()
    assert all(env.session.done and env.session.turns == 2 for env in trainer.environments)
    assert mask == [2 * len(call)] * 4  # two calls were the episode; what was sampled after its end is not trained
    plain = GRPOTrainer._tool_call_loop is not type(trainer)._tool_call_loop
    assert plain and rounds[0] == 4 and len(rounds) > 3 * 2  # and something was


def test_what_does_not_go_together_is_refused(policy: Path, tmp_path: Path) -> None:
    model, tokenizer = parts(policy)
    with pytest.raises(BadConfig, match="needs rollout_func"):
        ours.TurnCreditTrainer(model, credit="gigpo", environment_factory=ours.environment(ENV))
    with pytest.raises(BadConfig, match="credit_options go with credit"):
        ours.TurnCreditTrainer(model, credit_options={"x": 1})
    trainer = ours.TurnCreditTrainer(
        model,
        args=arguments(tmp_path),
        processing_class=tokenizer,
        train_dataset=ours.dataset(ENV, "train", 4),
        rollout_func=ours.rollout(ENV, agent="window", turn_tokens=4, horizon=2),
    )
    with pytest.raises(BadConfig, match="rows of tokens"):
        trainer.train()


def test_a_bare_environment_as_factory_is_told_what_to_use(policy: Path, tmp_path: Path) -> None:
    import gymnasium as gym

    model, tokenizer = parts(policy)
    trainer = GRPOTrainer(
        model,
        lambda completions, **_: [0.0] * len(completions),
        args=arguments(tmp_path),
        processing_class=tokenizer,
        train_dataset=ours.dataset(ENV, "train", 4),
        environment_factory=lambda: gym.make(ENV),
    )
    with pytest.raises(BadConfig, match=r"agentgym\.integrations\.trl\.environment"):
        trainer.train()
