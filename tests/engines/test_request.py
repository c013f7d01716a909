"""What an engine is asked stands in one object, and `generate`, which makes it, is declared once."""

import ast
import asyncio
import inspect
from dataclasses import fields
from pathlib import Path

import pytest

import agentgym
from agentgym.engines import Completion, Request, Sampling, TokenEngine
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig
from agentgym.rollout.replay import Replayed

PACKAGE = Path(agentgym.__file__).parent


class Noting(TokenEngine):
    """Keeps what it is asked."""

    policy_version, tokenizer, context = 0, None, 8

    async def complete(self, request):
        self.request = request
        return Completion([1], [-1.0], "stop")

    async def score(self, ids, temperature=1.0):
        return []

    def abort(self, session):
        pass

    async def pause(self):
        pass

    async def resume(self):
        pass

    async def load_weights(self, weights, version):
        pass

    def close(self):
        pass


def test_every_parameter_of_generate_reaches_the_engine():
    assert set(inspect.signature(TokenEngine.generate).parameters) - {"self"} == {field.name for field in fields(Request)}
    engine, sampling = Noting(), Sampling(seed=3)
    asyncio.run(engine.generate((5, 6), sampling, "s", watch=print))
    assert engine.request == Request([5, 6], sampling, "s", print)


def test_only_the_protocol_spells_the_parameters_out():
    places = [
        path.relative_to(PACKAGE).as_posix()
        for path in PACKAGE.rglob("*.py")
        if "prompt_ids" in (text := path.read_text(encoding="utf-8"))
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.AsyncFunctionDef) and "prompt_ids" in (parameter.arg for parameter in node.args.args)
    ]
    assert places == ["engines/protocol.py"]


def test_an_engine_that_lacks_a_method_cannot_be_made():
    lacking = type("Lacking", (Noting,), {"score": TokenEngine.score})
    with pytest.raises(TypeError, match="score"):
        lacking()


def test_images_are_refused_by_every_engine():
    with pytest.raises(BadConfig, match="ScriptedEngine takes no images"):
        asyncio.run(ScriptedEngine(["a"]).generate([1], Sampling(), "s", images=[object()]))


def test_a_replayed_episode_hands_every_parameter_on_to_the_real_engine():
    engine = Replayed(ScriptedEngine(["abc"]), "recorded", agentgym.Episode("e", "t", "g", 0, 0))
    completion = asyncio.run(engine.generate([1], Sampling(), "another", watch=lambda id, _: id == ord("b")))
    assert completion.ids == [*b"ab"] and completion.finish == "stop"


class Declares:
    """An engine that declares `generate` itself, and inherits nothing."""

    async def generate(self, prompt_ids, sampling, session, *, images=(), watch=None):
        return Completion([7], [-1.0], "stop")


def test_a_replayed_episode_asks_an_engine_that_declares_generate_itself():
    engine = Replayed(Declares(), "recorded", agentgym.Episode("e", "t", "g", 0, 0))
    assert asyncio.run(engine.generate([1], Sampling(), "another")).ids == [7]
