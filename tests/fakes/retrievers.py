"""What tests of retrieval share: a corpus, an encoder made from nothing, and a server in a process of its own."""

import contextlib
import json
import re
import signal
import subprocess
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

from agentgym.envs.search.generate import World
from agentgym.retrieval import Document, Retriever

DOCUMENTS = [  # hand-made: numbers of words, with the title's, are 3, 4, 6, 3
    Document("a", "Red", "red fox"),
    Document("b", "Blue", "red whale sea"),
    Document("c", "Green", "sea sea sea red boat"),
    Document("d", "Grey", "stone wall"),
]


def world_documents(difficulty: int = 3) -> list[Document]:
    """Return the documents of one generated world."""
    return World(7, "train", difficulty).corpus.documents


def write_corpus(path: Path, documents: Sequence[Document]) -> str:
    """Write documents as the Wikipedia passages are written."""
    rows = (json.dumps({"id": document.id, "contents": document.contents}) + "\n" for document in documents)
    path.write_text("".join(rows), encoding="utf-8")
    return str(path)


def ids(retriever: Retriever, query: str, count: int) -> list[str]:
    """Return the ids of what one query finds."""
    return [hit.document.id for hit in retriever.search([query], count)[0]]


def make_encoder(folder: Path, texts: Sequence[str], seed: int = 0) -> str:
    """Save a BERT of random weights, two layers of 32 dimensions, with a word for every word of the texts."""
    import torch
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules
    from tokenizers import Tokenizer, normalizers, pre_tokenizers, processors
    from tokenizers.models import WordLevel
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    known = sorted({word for text in texts for word in re.findall(r"\w+|[^\w\s]", text.lower())})
    vocabulary = {word: number for number, word in enumerate([*special, *known])}
    tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Lowercase()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]"
    )
    fast.model_max_length = 128
    torch.manual_seed(seed)
    shape = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
    model = BertModel(BertConfig(vocab_size=len(vocabulary), max_position_embeddings=128, **shape))
    model.save_pretrained(folder / "plain")
    fast.save_pretrained(folder / "plain")
    word = modules.Transformer(str(folder / "plain"), max_seq_length=128)
    whole = SentenceTransformer(modules=[word, modules.Pooling(32, pooling_mode="mean")], device="cpu")
    whole.save(str(folder / "encoder"))
    return str(folder / "encoder")


@contextlib.contextmanager
def serving(*flags: str) -> Generator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `agentgym serve retriever` in a process of its own; give its address."""
    command = [sys.executable, "-m", "agentgym", "serve", "retriever", *flags]
    port = [] if "--port" in flags else ["--port", "0"]
    with subprocess.Popen([*command, *port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            found = re.search(r"http://\S+", line)
            assert found, line + process.stdout.read()
            yield found[0], process
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
            process.wait()
