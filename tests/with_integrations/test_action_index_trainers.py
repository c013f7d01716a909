"""The real Stable-Baselines3, sb3-contrib and RLlib train small policies on text environments."""

from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym.integrations.action_index import ActionIndexEnv


class Signal(agentgym.TextEnv):
    """Say the color that is shown; the commands stand in an order that changes."""

    horizon = 1
    COLORS = ("red", "green", "blue")

    def begin(self, task: agentgym.Task) -> str:
        self.order = list(task.data["order"])
        return f"The light is {task.data['color']}."

    def act(self, action: str) -> Any:
        self.last_valid = action in self.admissible()
        if not self.last_valid:
            return self.invalid("Say a color.")
        return self.win("Right.") if action == self.task.data["color"] else self.lose("Wrong.")

    def admissible(self) -> list[str]:
        return self.order

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> agentgym.Task:
        order = [Signal.COLORS[place] for place in rng.permutation(3)]
        return agentgym.Task(data={"color": order[rng.integers(3)], "order": order, "number": int(rng.integers(10**9))})


def made(**options: Any) -> ActionIndexEnv:
    return ActionIndexEnv(Signal(), actions=5, **options)


def success(choose: Any, episodes: int = 60) -> tuple[float, float]:
    """Return the share of successes and of valid actions."""
    env, won, valid = made(), 0, 0
    for seed in range(episodes):
        observation, _ = env.reset(seed=10_000 + seed)
        *_, info = env.step(choose(observation, env.action_masks()))
        won, valid = won + info["success"], valid + info["valid"]
    return won / episodes, valid / episodes


def test_the_checker_of_stable_baselines3_passes_and_ppo_learns() -> None:
    sb3 = pytest.importorskip("stable_baselines3", reason="stable-baselines3 is not installed: ./dev test-action-index")
    from stable_baselines3.common.env_checker import check_env

    check_env(made())
    model = sb3.PPO("MlpPolicy", made(), n_steps=256, batch_size=64, learning_rate=3e-3, seed=0, device="cpu")
    before, _ = success(lambda seen, _: model.predict(seen, deterministic=True)[0])
    model.learn(6000)
    after, valid = success(lambda seen, _: model.predict(seen, deterministic=True)[0])
    assert after > max(before, 0.5) and valid > 0.9


def test_maskable_ppo_never_takes_a_number_without_a_command() -> None:
    contrib = pytest.importorskip("sb3_contrib", reason="sb3-contrib is not installed: ./dev test-action-index")
    model = contrib.MaskablePPO("MlpPolicy", made(), n_steps=256, batch_size=64, learning_rate=3e-3, seed=0, device="cpu")
    _, valid = success(lambda seen, mask: model.predict(seen, action_masks=mask)[0])
    assert valid == 1.0  # before it has learned anything
    model.learn(6000)
    after, _ = success(lambda seen, mask: model.predict(seen, action_masks=mask, deterministic=True)[0])
    assert after > 0.5


def test_rllib_trains_a_few_hundred_steps() -> None:
    ray = pytest.importorskip("ray", reason="ray is not installed: ./dev test-action-index")
    pytest.importorskip(
        "ray.rllib.algorithms.ppo", reason="RLlib is not installed: ./dev test-action-index", exc_type=ImportError
    )
    from ray import tune
    from ray.rllib.algorithms.ppo import PPOConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.examples.rl_modules.classes.action_masking_rlm import ActionMaskingTorchRLModule

    tune.register_env("signal", lambda _: made(mask_in_observation=True))
    ray.init(address="local", num_cpus=1, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        config = (
            PPOConfig()
            .environment("signal")
            .env_runners(num_env_runners=0)
            .training(train_batch_size_per_learner=200, minibatch_size=50, num_epochs=1)
            .rl_module(
                rl_module_spec=RLModuleSpec(
                    module_class=ActionMaskingTorchRLModule, model_config={"head_fcnet_hiddens": [64, 64]}
                )
            )
        )
        algorithm = config.build_algo()
        result = algorithm.train()
        assert result["env_runners"]["num_env_steps_sampled"] >= 200 and result["env_runners"]["episode_return_mean"] > 0
        algorithm.stop()
    finally:
        ray.shutdown()
