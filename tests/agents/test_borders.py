"""Texts encoded by their words: the tokens of the whole, or not done at all."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from tokenizers_for_tests import KINDS, SENTENCES, wrap

from agentgym import Task, WindowAgent
from agentgym.agents import borders
from agentgym.agents.encode import Encoder, UntrustedText
from agentgym.agents.phrases import BORDER, pattern
from agentgym.agents.template import ChatTemplate
from agentgym.engines import Completion
from agentgym.engines.scripted import ByteTokenizer, ScriptedEngine
from agentgym.trainers.model.policy import train_tokenizer

QWEN = r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
LLAMA3 = QWEN.replace(r"|\p{N}|", r"|\p{N}{1,3}|")
O200K = (
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"""
    r"""[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}|"""
    r""" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"""
)
GPT2 = r"""'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"""
LETTERS = (
    SENTENCES + ["You don't see it, I'm sure.\n\n  if x:\n    return  é ß 中文 🙂 12345\r\n\t<b>bold</b> HTTP://a.b/c_d"] * 9
)
PHRASES = (
    LETTERS
    + [
        "On the desk 1, you see a book 2, a pencil 10, and a cup 4. The book 2 is on the desk 1.\nYou see a shelf 3.",
        "['go to desk 1', 'take the book 2 from shelf 3', 'look'] [SEP] Buy Now [SEP] B07XYZ1234 [SEP] $12.50 (3 of 10)",
    ]
    * 20
)


def regex(pattern: str, normalizer: Any = None, symbols: int = 420) -> Any:
    backend = Tokenizer(models.BPE())
    backend.normalizer = normalizer
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated")
    bytes_only = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.pre_tokenizer = pre_tokenizers.Sequence([split, bytes_only])
    backend.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    backend.train_from_iterator(
        LETTERS, trainers.BpeTrainer(vocab_size=symbols, initial_alphabet=alphabet, show_progress=False)
    )
    return wrap(backend, plain=("<think>", "</think>"))


def gemma() -> Any:
    """A normalizer writes the blanks, nothing is cut; the vocabulary has no token over two words."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend.train_from_iterator(LETTERS, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    raw = json.loads(backend.to_str())
    raw |= {
        "added_tokens": [],
        "normalizer": json.loads(normalizers.Replace(" ", "▁").__getstate__()),
        "pre_tokenizer": None,
    }
    return wrap(Tokenizer.from_str(json.dumps(raw)))


CUT = {
    "qwen": regex(QWEN, normalizers.NFC()),
    "llama 3": regex(LLAMA3),
    "o200k": regex(O200K),
    "gpt-2": regex(GPT2),
    "gemma": gemma(),
    "bytes": ByteTokenizer(),
    "own words": train_tokenizer(LETTERS, 420, "words"),
    "own phrases": train_tokenizer(PHRASES, 700, "phrases"),
    "phrases without names": train_tokenizer(["go to the desk, a book. [SEP] Back"] * 50, 420, "phrases"),
}
ENCODERS = {name: Encoder(tokenizer) for name, tokenizer in CUT.items()}
KIND_ENCODERS = {kind.__name__: Encoder(kind()) for kind in KINDS}
PARTS = [
    *("a", "Z", "desk", " to", " the", "don't", "'s", "'LL", "1", "234", ".", ",", "_", "/", "<", "<|im_end|>", "<think>"),
    *(
        " ",
        "  ",
        *(
            ", a",
            ", and a",
            ". A",
            "1, a",
            "2. and a",
            "]",
            "] ",
            "[SEP]",
            " [SEP] ",
            "'",
            "(",
            " desk 1",
            "desk",
            "B07XYZ1234",
        ),
        "\n",
        "\r\n",
        "\t",
        "\u00a0",
        "\u2009",
        "é",
        "e\u0301",
        "\u0301",
        "ß",
        "İ",
        "K",
        "中",
        "🙂",
        "▁",
        "Ġ",
        "\ud800",
    ),
]
TEXTS = st.lists(st.sampled_from(PARTS) | st.text(max_size=3), max_size=16).map("".join)


@pytest.mark.parametrize("name", sorted(CUT))
def test_tokenizers_of_the_field_are_cut(name: str) -> None:
    assert ENCODERS[name]._border is not None


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(sorted(ENCODERS)) | st.sampled_from(sorted(KIND_ENCODERS)), TEXTS)
def test_the_words_give_the_tokens_of_the_whole(name: str, text: str) -> None:
    encoder = {**ENCODERS, **KIND_ENCODERS}[name]
    assert encoder._encode(text) == encoder._whole(text)


def whole(tokenizer: Any) -> ChatTemplate:
    """Return a template that encodes every text as one."""
    encoder = Encoder(tokenizer)
    encoder._border = None
    return ChatTemplate(tokenizer, encoder=encoder)


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(CUT)), TEXTS, TEXTS, st.lists(TEXTS, min_size=2, max_size=2))
def test_prompts_with_fixed_parts_are_the_same(name: str, system: str, fixed: str, texts: list[str]) -> None:
    cut, uncut = ChatTemplate(CUT[name], encoder=ENCODERS[name]), whole(CUT[name])
    hidden = "".join(letter for letter in fixed if letter not in "\ue000\ue001")
    conversations = [
        f"Your task is{hidden} the ",
        UntrustedText(texts[0]),
        f" and then{hidden}",
        UntrustedText(texts[1]),
        " go on now\nplease.",
    ]
    assert cut.start([UntrustedText(system)], conversations) == uncut.start([UntrustedText(system)], conversations)
    assert cut.bridge(conversations) == uncut.bridge(conversations)


@pytest.mark.parametrize("name", sorted(CUT))
def test_prompts_of_the_window_agent_are_the_same(name: str) -> None:
    agents = [WindowAgent(ScriptedEngine([]), CUT[name]) for _ in range(2)]
    agents[1].template.encoder._border = None
    talks = [agent.begin(Task(instruction="put a book 2 in the shelf"), {}) for agent in agents]
    for turn in range(5):
        seen = f"On the desk {turn}, you don't see\n  a book <|im_end|> {turn}." * (1 + 20 * (turn % 2))
        prompts = [talk.prompt(seen, {"admissible": [f"go to desk {turn}", "look"]}) for talk in talks]
        assert prompts[0] == prompts[1]
        reply = agents[0].template.encoder.encode([UntrustedText(f"<think>a</think> <action>go to desk {turn}</action>")])
        for talk in talks:
            talk.reply(Completion([*reply, agents[0].sampling.stop_ids[0]], [], "stop"))


def test_only_words_not_seen_before_are_encoded() -> None:
    tokenizer = regex(QWEN)
    agent, encoded = WindowAgent(ScriptedEngine([]), tokenizer), 0
    ids = agent.template.encoder._ids

    def counted(text: str) -> list[int]:
        nonlocal encoded
        encoded += len(text)
        return ids(text)

    agent.template.encoder._ids = counted  # type: ignore[method-assign]
    costs: list[int] = []
    talk = agent.begin(Task(instruction="put a book in the shelf"), {})
    for turn in range(6):
        encoded = 0
        prompt = talk.prompt(f"On the desk you see a pencil {turn}.", {"admissible": ["go to the desk"] * 20})
        costs.append(encoded)
        reply = agent.template.encoder.encode([UntrustedText("<think>a</think> <action>go to the desk</action>")])
        talk.reply(Completion([*reply, agent.sampling.stop_ids[0]], [], "stop"))
        assert len(agent.template.encoder.decode(prompt)) > 600
    assert max(costs[3:]) < 150


def other_phrases() -> Any:
    """As `phrases`, but a number takes the word behind it along: a pattern that is not ours."""
    return regex(re.sub(r"and\)\? a", "and)? [a-z]+", pattern(["desk"])), symbols=460)


def normalized_phrases() -> Any:
    return regex(pattern(["desk"]), normalizers.Lowercase(), symbols=460)


def superwords() -> Any:
    return regex(r"[\p{L} ]+|\s|[^\s\p{L}]+", symbols=460)


def looks_back() -> Any:
    return regex(r"(?<=you see )\p{L}| ?\p{L}+|\s+|[^\s\p{L}]+")


def blank_first() -> Any:
    """As Llama 2 in its legacy form: a blank before every text."""
    tokenizer = gemma()
    tokenizer.backend_tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    return tokenizer


@pytest.mark.parametrize(
    "make",
    [other_phrases, normalized_phrases, superwords, looks_back, blank_first, KINDS[3]],
    ids=lambda make: make.__name__,
)
def test_other_tokenizers_are_given_whole_texts(make: Any) -> None:
    encoder = Encoder(make())
    assert encoder._border is None
    assert encoder._encode("go to the desk") == encoder._whole("go to the desk")


def test_where_a_text_is_cut() -> None:
    assert borders.pieces("you see: a desk 1  and an\n end", borders.WORDS) == [
        "you",
        " see: a",
        " desk 1  and",
        " an\n end",
    ]
    assert borders.cut(["Task here: ", 0, " now then go", 1, "."], borders.WORDS) == [
        ["Task"],
        [" here: ", 0, " now"],
        [" then"],
        [" go", 1, "."],
    ]
    assert "".join(borders.pieces(" a b  c d", borders.WORDS)) == " a b  c d"


def test_where_a_text_of_phrases_is_cut() -> None:
    text = "['go to desk 1', 'look'], I see a desk 2, a cup 10. Then] I go: on [SEP] now"
    assert borders.pieces(text, BORDER) == [
        "['go to desk", " 1',", " 'look'], I see a desk", " 2, a cup", " 10. Then] I go:", " on", " [SEP] now",
    ]  # fmt: skip


def test_most_of_a_prompt_of_phrases_is_not_encoded_again() -> None:
    encoder = Encoder(CUT["own phrases"])
    text = "['go to desk 1', 'take the book 2 from shelf 3', 'look'] On the desk 1, you see a cup 4."
    encoder.plain(text)
    encoded: list[str] = []
    ids = encoder._ids
    encoder._ids = lambda text: encoded.append(text) or ids(text)  # type: ignore[method-assign,func-returns-value]
    encoder.plain(text.replace("cup 4", "cup 10"))
    assert sum(map(len, encoded)) < 25
