"""What the tokens of a policy made here may grow to."""

import pytest

from agentgym.errors import BadConfig, UnknownName
from agentgym.trainers.config.recipe_files import read_recipe
from agentgym.trainers.config.train_config import TrainConfig
from agentgym.trainers.model.policy import train_tokenizer

TEXTS = [
    "Instruction: [SEP] i need slip resistant clogs [SEP] Search",
    "search[slip resistant clogs 9]",
    "Back to Search [SEP] B0DEDEKAMO [SEP] Zephyra Clogs, Slip Resistant [SEP] $9.50",
    "click[B0DEDEKAMO]",
] * 50


def cut(tokenizer, text):
    return [tokenizer.decode([token]) for token in tokenizer.encode(text)]


@pytest.mark.parametrize("pre_tokenizer", ["phrases", "words"])
def test_marks_and_codes_are_whole(pre_tokenizer):
    tokenizer = train_tokenizer(TEXTS, 1000, pre_tokenizer)
    assert cut(tokenizer, "to Search [SEP] B0DEDEKAMO [SEP] $9")[-5:-2] == [" [SEP] ", "B0DEDEKAMO", " [SEP] "]
    assert cut(tokenizer, "click[B0DEDEKAMO]") == ["click", "[", "B0DEDEKAMO", "]"]
    for text in (*TEXTS[:4], "B0X1 [sep] 12345678 ABCDEFGH [A [B] x\u00e9\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_words_are_copied_one_by_one():
    tokenizer = train_tokenizer(TEXTS, 1000, "words")
    assert cut(tokenizer, "i need slip resistant clogs") == ["i", " need", " slip", " resistant", " clogs"]
    assert cut(tokenizer, "search[slip resistant clogs 9]") == ["search", "[", "slip", " resistant", " clogs", " 9", "]"]
    assert cut(train_tokenizer(TEXTS, 1000), "i need slip resistant clogs") == ["i need slip resistant", " clogs"]


def test_names_are_one_token_wherever_they_stand():
    texts = ["Ann: My room is elm.", "note[Ann room elm]", "1: Ann room elm\n2: Bob car red", "answer[elm]", "red\nAnn"] * 20
    tokenizer = train_tokenizer(texts, 1000, "names")
    assert cut(tokenizer, "Ann: My room is elm.") == ["Ann", ":", " My room is ", "elm", "."]
    assert cut(tokenizer, "note[Ann room elm]") == ["note", "[", "Ann", " room ", "elm", "]"]
    assert cut(tokenizer, "answer[elm]") == ["answer", "[", "elm", "]"]
    assert cut(tokenizer, "1: Ann room elm\n")[-4:] == ["Ann", " room ", "elm", "\n"]
    for text in (*texts[:5], "Anna  elm,elms 12 B0X1 \u00e9\n"):
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_what_is_set_wrongly_is_said():
    with pytest.raises(UnknownName, match="pre_tokenizer"):
        train_tokenizer(TEXTS, 1000, "letters")
    with pytest.raises(UnknownName, match="pre_tokenizer"):
        TrainConfig(pre_tokenizer="letters")
    with pytest.raises(BadConfig, match="vocabulary is 100; expected at least 300"):
        TrainConfig(vocabulary=100)
    assert (read_recipe("shop").pre_tokenizer, read_recipe("household").pre_tokenizer) == ("words", "phrases")
