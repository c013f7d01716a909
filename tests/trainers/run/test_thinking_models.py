"""Thoughts kept are one row, thoughts stripped a row a turn; the gradient is that of turns trained one by one."""

import importlib.util
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

import agentgym
from agentgym import ChatAgent, Episode, SummaryAgent
from agentgym.engines.scripted import ScriptedEngine
from agentgym.trainers.data.packing import pack, token_weights
from agentgym.trainers.data.segments import Segment, build
from agentgym.trainers.losses.policy import clip, policy_loss
from agentgym.trainers.model.logprobs import policy_logprobs

PATH = Path(__file__).resolve().parents[3] / "benchmarks" / "templates.py"
ADVANTAGES = [0.5, -1.0, 2.0, 0.25]


def thinking_tokenizer(name: str) -> Any:
    """Return a tokenizer with a thinking model's own template, as TRL's wheel has it."""
    spec = importlib.util.spec_from_file_location("benchmark_templates", PATH)
    assert spec and spec.loader
    survey = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(survey)
    return survey.tokenizer_for(survey.templates()[name])


def episode(kind: type[ChatAgent] | type[SummaryAgent], tokenizer: Any, **options: Any) -> Episode:
    """Return four turns of a model that thinks before each guess."""
    engine = ScriptedEngine(lambda text, turn: f"{opened(text)}I wonder.\n</think>\n\n{turn + 1}", tokenizer)
    agent = kind(engine, prompt="bare", **options)
    (played,) = agentgym.collect(agent, "rlvr/GuessNumber-v0", tasks=1, horizon=4)
    assert len(played.turns) == 4 and not played.fault
    return played


def opened(text: str) -> str:
    return "" if text.rstrip().endswith("<think>") else "<think>\n"


def gradient(segments: list[Segment], vocabulary: int, loss_aggregation: str, level: str) -> torch.Tensor:
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=8, intermediate_size=48, tie_word_embeddings=True, initializer_range=0.1,
    )  # fmt: skip
    model = Qwen3ForCausalLM(config).eval()
    for batch in pack(segments, token_weights(segments, loss_aggregation), 256):
        policy_loss(policy_logprobs(model, batch, 1.0), batch, function=partial(clip, importance_sampling_level=level))[
            0
        ].backward()
    return torch.cat([p.grad.flatten() for p in model.parameters()])


CASES = {
    "kept, thoughts opened by the prompt": (ChatAgent, "deepseek_r1_distill", {"history": "keep"}, 1),
    "kept": (ChatAgent, "qwen3", {"history": "keep"}, 1),
    "kept by the template": (ChatAgent, "qwen3", {"history": "template"}, 1),
    "stripped": (ChatAgent, "deepseek_r1_distill", {"history": "template"}, 4),
    "stripped, thoughts not opened": (ChatAgent, "lfm2_2_5", {"history": "template"}, 4),
    "summed up": (SummaryAgent, "qwen3", {"turns": 2}, 2),
}


@pytest.mark.parametrize(("loss_aggregation", "level"), [("token", "token"), ("turn", "turn")])
@pytest.mark.parametrize("case", CASES)
def test_the_gradient_is_that_of_turns_one_by_one(case: str, loss_aggregation: str, level: str) -> None:
    kind, template, options, rows = CASES[case]
    tokenizer = thinking_tokenizer(template)
    played = episode(kind, tokenizer, **options)
    merged, unmerged = build([played], [ADVANTAGES]), build([played], [ADVANTAGES], merge=False)
    assert len(merged) == rows and len(unmerged) == sum(len(turn.calls) for turn in played.turns)
    last = tokenizer.decode(played.turns[-1].prompt_ids)
    assert last.count("wonder") == (0 if rows == 4 else 3 if rows == 1 else 1)
    assert sum(row.trained for row in merged) == sum(turn.sampled for turn in played.turns)
    found, expected = (gradient(form, len(tokenizer), loss_aggregation, level) for form in (merged, unmerged))
    assert float(expected.norm()) > 1e-3
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=2e-6 * float(expected.norm()))
