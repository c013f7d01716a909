"""What the vllm engine asks of vLLM for a completion; where vLLM is not installed, of a module with its two names."""

import sys
from enum import Enum
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType, SimpleNamespace

import pytest

from agentgym.engines import Request, Sampling

ENGINE = "agentgym.engines.vllm.engine"
ABSENT = find_spec("vllm") is None


@pytest.fixture
def parameters(monkeypatch):
    """Return how the engine builds a request's parameters."""
    if ABSENT:
        stand_in = ModuleType("vllm")
        kinds = Enum("RequestOutputKind", ["CUMULATIVE", "DELTA", "FINAL_ONLY"])
        stand_in.__dict__.update(SamplingParams=SimpleNamespace, sampling_params=SimpleNamespace(RequestOutputKind=kinds))
        monkeypatch.setitem(sys.modules, "vllm", stand_in)
        monkeypatch.delitem(sys.modules, ENGINE, raising=False)
    built = import_module(ENGINE)._parameters
    if ABSENT:  # no other test is to find an engine over the stand-in
        sys.modules.pop(ENGINE)
        if hasattr(parent := sys.modules[ENGINE.rpartition(".")[0]], "engine"):
            monkeypatch.delattr(parent, "engine")
    return built


def test_an_unwatched_completion_comes_whole(parameters):
    """An output per token would be work for the loop that also runs the environments."""
    wire = parameters(Request([1, 2], Sampling(max_tokens=9), "s"), 9, seeded=True)
    assert wire.output_kind.name == "FINAL_ONLY"


def test_a_watched_one_comes_token_by_token_and_none_twice(parameters):
    wire = parameters(Request([1, 2], Sampling(max_tokens=9), "s", watch=lambda id, logprob: False), 9, seeded=True)
    assert wire.output_kind.name == "DELTA"


def test_a_request_is_complete_and_without_a_seed_where_none_is_wanted(parameters):
    sampling = Sampling(temperature=0.7, max_tokens=9, stop_ids=(3,), seed=2**63 + 5)
    wire = parameters(Request([1, 2], sampling, "s"), 4, seeded=True)
    assert (wire.temperature, wire.max_tokens, wire.stop_token_ids, wire.logprobs) == (0.7, 4, [3], 0)
    assert wire.ignore_eos and not wire.detokenize and wire.seed == 5
    assert parameters(Request([1, 2], sampling, "s"), 4, seeded=False).seed is None
