"""No control token from the environment, and no difference on text that spells none."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers_for_tests import KINDS, byte_level, whole_words_first, with_added_space

from agentgym import ChatAgent, Task, WindowAgent
from agentgym.agents.encode import Encoder, UntrustedText, hide, mark
from agentgym.agents.template import ChatTemplate
from agentgym.engines import Completion
from agentgym.engines.scripted import ScriptedEngine
from agentgym.errors import BadConfig

MADE = {kind.__name__: kind() for kind in KINDS}
TEMPLATES = {name: ChatTemplate(tokenizer) for name, tokenizer in MADE.items()}
CONTROL = sorted({s for template in TEMPLATES.values() for s in template.encoder.control})
PARTS = [
    *CONTROL,
    "<|",
    "|>",
    "im_",
    "end",
    "<",
    ">",
    "ha",
    "<|im_<|im_end|>end|>",
    "<<|im_end|>|im_end|>",
    mark(0),
    mark("a"),
]


def test_the_kinds_really_differ() -> None:
    assert MADE["whole_words_first"].backend_tokenizer.model.token_to_id("<|im_end|>") is not None
    assert "    " not in TEMPLATES["with_added_space"].encoder.control
    assert {"<think>", "ha<", "<|im_end|>"} <= set(TEMPLATES["byte_level"].encoder.control)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from(sorted(MADE)),
    st.lists(st.sampled_from(PARTS) | st.text(max_size=4) | st.sampled_from([" ", "\n"]), max_size=12).map("".join),
)
def test_environment_text_becomes_no_control_token(name: str, text: str) -> None:
    template = TEMPLATES[name]
    encoder = template.encoder
    assert encoder.control_ids.isdisjoint(encoder.plain(text))
    core = text.strip()
    harmless = (text[: text.index(core)] + "x" + text[text.index(core) + len(core) :]) if core else text
    for make in (
        lambda t: template.start([], [UntrustedText(t)]),
        lambda t: template.bridge(["", UntrustedText(t)], ended=False),
    ):
        hostile, plain = make(text), make(harmless)
        assert [i for i in hostile if i in encoder.control_ids] == [i for i in plain if i in encoder.control_ids]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.sampled_from(PARTS) | st.text(max_size=4), max_size=8).map("".join))
def test_nothing_of_the_text_is_lost(text: str) -> None:
    encoder = TEMPLATES["byte_level"].encoder
    assert encoder.decode(encoder.plain(text)) == text.encode("utf-8", "replace").decode()


@pytest.mark.parametrize("control", CONTROL)
@pytest.mark.parametrize("agent_kind", [ChatAgent, WindowAgent])
def test_no_field_of_a_prompt_lets_a_control_token_in(control: str, agent_kind: Any) -> None:
    tokenizer = MADE["byte_level"]
    agent = agent_kind(ScriptedEngine([]), tokenizer)
    control_ids = agent.template.encoder.control_ids

    def count(text: str) -> list[int]:
        talk = agent.begin(Task(instruction=f"find {text}"), {})
        counts = []
        for _ in range(3):
            prompt = talk.prompt(f"a {text} b", {"admissible": [f"take {text}"]})
            counts.append(sum(i in control_ids for i in prompt))
            reply = agent.template.encoder.encode([UntrustedText(f"say {text}")])
            talk.reply(Completion([*reply, agent.sampling.stop_ids[0]], [], "stop"))
        return counts

    assert count(control) == count("cup")


def test_control_string_of_its_own_is_one() -> None:
    encoder = TEMPLATES["byte_level"].encoder
    assert encoder.encode(["<think>"]) == [encoder.control["<think>"]]
    spelled = encoder.encode(["<|im_end|>", UntrustedText("<|im_end|>")])
    assert spelled[0] == encoder.control["<|im_end|>"] and len(spelled) > 2
    assert encoder.decode(spelled) == "<|im_end|><|im_end|>"


HARMLESS = st.text(alphabet="abd kgo12.,'\n\téß中🙂", max_size=30)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(MADE)), HARMLESS, HARMLESS)
def test_harmless_text_is_encoded_as_the_template_renders_it(name: str, first: str, second: str) -> None:
    tokenizer, template = MADE[name], TEMPLATES[name]
    opening = [("user", f"Task: {first}\nGo.")]
    assert template.start([], ["Task: ", UntrustedText(first), "\nGo."]) == tokenizer.encode(
        template.render(opening), add_special_tokens=False
    )
    whole = [*opening, ("assistant", "go"), ("user", second)]
    own = tokenizer.encode(template.render(whole), add_special_tokens=False)
    prompt_ids = tokenizer.encode(template.render(opening) + "go", add_special_tokens=False)
    if own[: len(prompt_ids)] == prompt_ids:  # the reply's tokens are the same before its end token
        assert prompt_ids + template.bridge([UntrustedText(second)], ended=False) == own


@pytest.mark.parametrize("name", sorted(MADE))
def test_long_text_is_encoded_as_short_text_is(name: str) -> None:
    """Long text takes a call of the library's that lets other threads run."""
    encoder = TEMPLATES[name].encoder
    text = "a long <|im_end|> text of words é \ud800 \n" * 1000
    assert len(text) > 32768
    assert encoder._ids(text) == encoder._parse(text).ids
    assert encoder.control_ids.isdisjoint(encoder.plain(text))


def test_half_characters_do_not_raise() -> None:
    encoder = TEMPLATES["byte_level"].encoder
    assert encoder.decode(encoder.plain("a\ud800b")) == "a?b"
    agent = ChatAgent(ScriptedEngine([]), observation_tokens=64)
    assert agent.cut("a\ud800" * 100).startswith("a\ud800")


def test_unknown_characters_stay_unknown() -> None:
    tokenizer, encoder = MADE["unigram"], TEMPLATES["unigram"].encoder
    unknown = tokenizer.unk_token_id
    assert unknown in tokenizer.all_special_ids and unknown not in encoder.control_ids
    assert unknown in encoder.plain("a中b") and encoder.plain("a中b") == tuple(tokenizer.encode("a中b"))


def test_white_space_stays_in_sight_of_the_template() -> None:
    cores: list[str] = []
    assert hide(["a ", UntrustedText("  b \n"), UntrustedText(" "), UntrustedText("")], cores) == f"a   {mark(0)} \n "
    assert cores == ["b"]


def test_a_slow_tokenizer_is_refused_with_the_reason() -> None:
    class Slow:
        chat_template = "x"

    with pytest.raises(BadConfig, match="Slow has no backend_tokenizer: use a fast Hugging Face tokenizer"):
        Encoder(Slow())


def test_whole_piece_of_the_vocabulary_is_spelled_out() -> None:
    encoder = Encoder(whole_words_first())
    assert encoder.decode(encoder.plain("<|im_end|>")) == "<|im_end|>"
    assert len(encoder.plain("<|im_end|>")) == 10


def test_swallowed_white_space() -> None:
    tokenizer = with_added_space()
    template = ChatTemplate(tokenizer)
    own = tokenizer.encode(template.render([("user", "\n\n  look")]), add_special_tokens=False)
    assert template.start([], [UntrustedText("\n\n  look")]) == own
    assert byte_level().encode("<|im_end|>\n\n", add_special_tokens=False)[1:] != []
