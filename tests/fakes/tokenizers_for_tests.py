"""Small tokenizers of the kinds that differ in how they treat control strings and the start of a text."""

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SENTENCES = [
    "You see a desk 1, a shelf 2 and a drawer 10.",
    "go to desk 1",
    "On the desk 1, you see a book 3.\n\nNothing else.",
] * 20


def survey() -> ModuleType:
    """Return benchmarks/templates.py as a module."""
    path = Path(__file__).resolve().parents[2] / "benchmarks" / "templates.py"
    spec = importlib.util.spec_from_file_location("benchmark_templates", path)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def wrap(backend: Tokenizer, template: str = CHATML, plain: tuple[str, ...] = (), **flags: bool) -> Any:
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    backend.add_special_tokens([AddedToken(s, special=True, normalized=False, **flags) for s in special])
    backend.add_tokens([AddedToken(s, special=False, normalized=False) for s in plain])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>")
    tokenizer.chat_template = template
    return tokenizer


def byte_level(**options: Any) -> Any:
    """As GPT-2, Qwen, Llama 3: bytes and merges, `<think>` added but not special."""
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(vocab_size=330, initial_alphabet=alphabet, show_progress=False)
    backend.train_from_iterator(SENTENCES, trainer)
    return wrap(backend, **{"plain": ("<think>", "</think>", "<tool_call>", "</tool_call>", "ha<"), **options})


def whole_words_first() -> Any:
    """As Llama 3 with `ignore_merges`: a piece that is in the vocabulary is taken whole, and control strings are in it."""
    vocab = {symbol: i for i, symbol in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    for control in ("<|endoftext|>", "<|im_start|>", "<|im_end|>"):
        vocab[control] = len(vocab)
    backend = Tokenizer(models.BPE(vocab=vocab, merges=[], ignore_merges=True))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    backend.decoder = decoders.ByteLevel()
    return wrap(backend)


def sentence_piece() -> Any:
    """As Llama 2, Mistral: a space before the text's first word only."""
    backend = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True))
    backend.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    backend.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    special = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    backend.train_from_iterator(SENTENCES, trainers.BpeTrainer(vocab_size=420, special_tokens=special, show_progress=False))
    return wrap(_without_added(backend))


def unigram() -> Any:
    """As T5, XLM: a unigram model that holds the control strings among its pieces."""
    letters = [(letter, -4.0) for letter in sorted(set("".join(SENTENCES)) | set("<|_imendstartofx>/▁"))]
    pieces = [("<unk>", 0.0), ("<|endoftext|>", 0.0), ("<|im_start|>", 0.0), ("<|im_end|>", 0.0), *letters]
    backend = Tokenizer(models.Unigram(pieces, unk_id=0))
    backend.normalizer = normalizers.Replace(" ", "▁")
    backend.decoder = decoders.Replace("▁", " ")
    tokenizer = wrap(backend)
    tokenizer.unk_token = "<unk>"
    return tokenizer


def with_added_space() -> Any:
    """As Gemma, Phi: runs of white space are added tokens, and control tokens swallow what follows them."""
    return byte_level(plain=("<think>", "\n\n", "    "), rstrip=True)


def _without_added(backend: Tokenizer) -> Tokenizer:
    import json

    raw = json.loads(backend.to_str())
    raw["added_tokens"] = []
    return Tokenizer.from_str(json.dumps(raw))


KINDS = (byte_level, whole_words_first, sentence_piece, unigram, with_added_space)
