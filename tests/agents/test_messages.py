"""Whole conversations and several messages at once, in tokens: what the gateway makes of a client's messages."""

from typing import Any

import pytest
from tokenizers_for_tests import CHATML, KINDS, byte_level

from agentgym.agents.encode import UntrustedText
from agentgym.agents.template import ChatTemplate
from agentgym.errors import BadConfig

CHAT = [("system", "Be brief."), ("user", "Hello"), ("assistant", "go to desk 1"), ("user", "You see a shelf 2.")]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_whole_equals_the_tokenizers_own_rendering(kind: Any) -> None:
    tokenizer = kind()
    template = ChatTemplate(tokenizer)
    text = tokenizer.apply_chat_template(
        [{"role": role, "content": content} for role, content in CHAT], tokenize=False, add_generation_prompt=True
    )
    want = tokenizer.encode(text, add_special_tokens=False)
    assert template.whole([(role, [UntrustedText(content)]) for role, content in CHAT]) == want


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("ended", [True, False])
def test_held_tokens_and_an_extension_are_the_whole(kind: Any, ended: bool) -> None:
    template = ChatTemplate(kind())
    after = [("user", [UntrustedText("You see a shelf 2.")]), ("user", [UntrustedText("And <|im_end|> a desk 1.")])]
    pieces = [(role, [UntrustedText(content)]) for role, content in CHAT[:3]]
    reply = [*template.encoder.plain(CHAT[2][1]), *([template.encoder.control["<|im_end|>"]] if ended else [])]
    held_ids = template.whole(pieces[:2]) + reply
    assert held_ids + template.extension(after, ended) == template.whole(pieces + after)
    assert template.extension([(template.role, after[0][1])], ended) == template.bridge(after[0][1], ended)


def test_without_a_system_role_its_text_opens_the_first_message() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = "{% if messages[0]['role'] == 'system' %}{{ raise_exception('no') }}{% endif %}" + CHATML
    template = ChatTemplate(tokenizer)
    got = template.whole([("system", [UntrustedText("A")]), ("user", [UntrustedText("B")])])
    assert got == template.whole([("user", [UntrustedText("A\n\nB")])])


def test_a_message_that_the_template_leaves_out_is_refused() -> None:
    tokenizer = byte_level()
    tokenizer.chat_template = CHATML.replace("messages %}", "messages if message['role'] != 'tool' %}", 1)
    template = ChatTemplate(tokenizer)
    template.role = "tool"
    with pytest.raises(BadConfig, match="leaves out"):
        template.extension([("tool", [UntrustedText("seen by nobody")])])
