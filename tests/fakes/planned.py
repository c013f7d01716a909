"""Shapes and a workload that the tests of the planner share."""

from transformers import Qwen3Config

from agentgym.planner.trial_play import Play
from agentgym.trainers.config.train_config import TrainConfig

FP32 = TrainConfig(precision="fp32", turn_tokens=24)
PLAY = Play(
    horizon=10,
    turns=4.0,
    first=40,
    reply=5.0,
    growth=20.0,
    fresh=20.0,
    rows=1.0,
    longest=400,
    replies=10,
    tokens=120.0,
    env_seconds=0.002,
    agent_seconds=0.001,
    episodes=8,
)


def shape(layers=2, width=64, vocabulary=500, **more):
    sizes = {"num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": width // 4, "intermediate_size": 2 * width}
    return Qwen3Config(hidden_size=width, num_hidden_layers=layers, vocab_size=vocabulary, **{**sizes, **more})
