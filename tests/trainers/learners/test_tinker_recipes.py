"""What goes to a server and what is refused before: recipes, and samplings that none knows."""

import asyncio

import pytest

from agentgym.cli.train import read
from agentgym.engines import Request, Sampling
from agentgym.engines.tinker import TinkerEngine
from agentgym.errors import BadConfig
from agentgym.trainers.config.recipe_files import read_recipe, recipes


@pytest.mark.parametrize("sampling_flags", [{"min_p": 0.1}, {"repetition_penalty": 1.1}])
def test_a_sampling_that_no_server_knows_is_refused_and_not_ignored(sampling_flags):
    engine = TinkerEngine(None, None, 100)
    with pytest.raises(BadConfig, match="samples without min_p and repetition_penalty"):
        asyncio.run(engine.complete(Request([1], Sampling(**sampling_flags), "s")))


PRETRAINED = [name for name in recipes() if read_recipe(name).model != "init"]


@pytest.mark.parametrize("name", PRETRAINED)
def test_a_recipe_goes_to_a_server_without_what_it_says_of_this_machine(name):
    words = [name, "--learner", "tinker:http://127.0.0.1:8000", "--lora-rank", "16"]
    config = read(words).config
    assert (config.engine, config.engine_options, config.processes, config.temperature) == ("hf", {}, 1, 1.0)
    own = read_recipe(name)
    assert (config.credit, config.tasks_per_step, config.clip_high) == (own.credit, own.tasks_per_step, own.clip_high)
    with pytest.raises(BadConfig, match="gradient_checkpointing is True and has no effect with learner"):
        read([*words, "--gradient-checkpointing"])
    assert read([*words, "--engine", "vllm:http://127.0.0.1:8001"]).config.engine_options == {}
    with pytest.raises(BadConfig, match="new weights cannot be sent"):
        read([*words, "--engine", "openai:http://127.0.0.1:8001"])
