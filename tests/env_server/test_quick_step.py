"""The short ways of a step over a connection say what the general ones say."""

import json

import hypothesis.strategies as st
from hypothesis import given

from agentgym.core.env import MAX_ACTION
from agentgym.env_server.connection import _observation  # pyright: ignore[reportPrivateUsage]
from agentgym.env_server.requests import action_of, parsed, plain_step
from agentgym.serving.asgi import Refusal

ACTIONS = st.text(st.characters(exclude_categories=("Cs",)), max_size=30)


@given(ACTIONS, st.booleans())
def test_an_action_read_without_the_parser_is_what_the_parser_reads(action: str, ascii: bool) -> None:
    message = json.dumps({"type": "step", "data": {"text": action}}, ensure_ascii=ascii)
    read = plain_step(message)
    assert read in (None, action_of(parsed(message)["data"], {}))
    plain = action.isascii() and action.isprintable() and not {'"', "\\"} & set(action)
    assert read is not None or not plain


@given(ACTIONS)
def test_a_message_that_is_no_plain_step_is_left_to_the_parser(inner: str) -> None:
    message = '{"type": "step", "data": {"text": "' + inner + '"}}'
    try:
        said = parsed(message)
    except Refusal:
        assert plain_step(message) is None
        return
    read = plain_step(message)
    assert read is None or said == {"type": "step", "data": {"text": read}}


def test_an_action_that_is_too_long_is_refused() -> None:
    message = json.dumps({"type": "step", "data": {"text": "a" * (MAX_ACTION + 1)}})
    try:
        plain_step(message)
    except Refusal as refusal:
        assert refusal.status == 413
    else:
        raise AssertionError("no refusal")


@given(st.text(max_size=30), st.sampled_from([0.0, -0.0, 0, 0.25, 1, float("inf")]), st.booleans())
def test_a_brief_observation_is_what_json_writes(text: str, reward: float, brief: bool) -> None:
    observation: dict[str, object] = {"text": text} if brief else {"text": text, "info": {}}
    answer = {"observation": observation, "reward": reward, "done": False}
    assert json.loads(_observation(answer)) == {"type": "observation", "data": answer}
