"""Duration of an update and of a whole run, computed from measured times per token, turn and step."""

from dataclasses import dataclass

from agentgym.planner.trial_play import Play
from agentgym.trainers.config.train_config import TrainConfig


@dataclass(frozen=True)
class Rates:
    """Measured times in seconds, in one process on this device."""

    prefill: float
    """Seconds per prompt token."""
    decode: float
    """Seconds per decoding step, which samples one token for every episode in flight."""
    train: float
    """Seconds per token of a forward and backward pass."""
    optimizer: float
    """Seconds per optimizer step."""
    sync: float
    """Seconds to load new weights into the engine."""
    layers: int
    """Number of layers of the measured model; a deeper model's rates are extrapolated from one and two layers."""


@dataclass(frozen=True)
class Seconds:
    """Seconds of one update by phase, and seconds of the whole run."""

    rollout: float
    env: float
    train: float
    sync: float
    evaluation: float
    """Seconds of in-loop evaluation, spread over the updates."""
    whole: float
    """Seconds of the whole run: SFT warm start, updates, and the evaluations before and after them."""

    @property
    def update(self) -> float:
        """Seconds of one update, over all phases."""
        return self.rollout + self.env + self.train + self.sync + self.evaluation


def likely(config: TrainConfig, play: Play, rates: Rates, row: int) -> Seconds:
    """Return the seconds if the policy plays like the expert; `row` is the length of the longest row in tokens."""
    return _seconds(config, play, rates, play.turns, play.reply, min(play.tokens, play.rows * row))


def most(config: TrainConfig, play: Play, rates: Rates, row: int) -> Seconds:
    """Return the seconds if every episode reaches its horizon, or fills the context, with replies of maximum length."""
    rows = max(play.rows * play.horizon / max(play.turns, 1.0), 1.0) if play.rows > 1 else 1.0
    turns = min(float(play.horizon), row / max(play.growth + config.turn_tokens, 1.0)) if play.rows <= 1 else play.horizon
    return _seconds(config, play, rates, turns, config.turn_tokens, rows * row)


def _seconds(config: TrainConfig, play: Play, rates: Rates, turns: float, reply: float, tokens: float) -> Seconds:
    """Return the seconds for episodes of `turns` turns with `reply` sampled tokens each and rows of `tokens` in total."""

    def sampled(episodes: float) -> float:
        batches = max(episodes / config.concurrency, 1.0)  # rounds of full slots, one after another
        prompts = episodes * (play.first + (turns - 1) * play.fresh)
        return batches * turns * reply * rates.decode + prompts * rates.prefill + episodes * turns * play.agent_seconds

    episodes = config.tasks_per_step * config.group_size / config.processes
    passes = config.epochs + (1 / 3 if config.differs and config.updates > 1 else 0) + (1 / 3 if config.kl else 0)
    rollout, env = sampled(episodes), episodes * turns * play.env_seconds
    train = episodes * tokens * passes * rates.train + config.updates * rates.optimizer
    tested = config.eval_tasks / config.processes if config.eval_every else 0.0
    evaluation = (sampled(tested) + tested * turns * play.env_seconds) / config.eval_every if tested else 0.0
    demonstrations = config.sft_episodes / config.processes
    sft = demonstrations * (tokens * rates.train + turns * (play.env_seconds + play.agent_seconds))
    sft += -(-config.sft_episodes // config.sft_batch) * rates.optimizer
    tests = [config.untrained_tasks, *[config.test_tasks] * (2 if config.sft_episodes else 1)]
    around = sum(sampled(n / config.processes) + n / config.processes * turns * play.env_seconds for n in tests if n)
    update = rollout + env + train + rates.sync + evaluation
    return Seconds(rollout, env, train, rates.sync, evaluation, sft + config.steps * update + around)
