"""One word for one thing: the words that the project no longer uses stand nowhere, with few exceptions."""

import ast
import functools
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
OLD = {
    "world",
    "worlds",
    "jail",
    "jails",
    "jailed",
    "player",
    "players",
    "law",
    "laws",
    "cheater",
    "cheaters",
    "zygote",
    "zygoted",
}
OLD_KEYS = {
    "warm_episodes", "warm_batch", "warm_lr", "warm_muon", "warm_noise", "warm_invalid", "warm_forget", "weighing", "ratio",
    "mismatch_cap", "negative", "checkpointing", "lr_decay", "weights", "pieces", "player", "law", "worlds",
    "dynamic_sampling", "refill_rounds",
}  # fmt: skip
OLD_NAMES = {"Subject", "_Gate", "success_warm", *OLD_KEYS} - {"ratio", "negative", "weights", "pieces", "check"}
KEEP = {  # names of others: environment variables and arguments of torch and of browsers, and packages
    "WORLD_SIZE", "LOCAL_WORLD_SIZE", "world_size", "ScienceWorldEnv", "world_documents", "textworld_alone",
    "createIsolatedWorld", "worldName",
}  # fmt: skip
NAMES = re.compile(r"(?i)text_?world|science_?world|alf_?world")
PHRASES = re.compile(  # English, and laws of nature
    r"(?i)real world|hello,? world|hello = \"world\"|generated worlds?|search worlds?"
    r"|--gradient-checkpointing|several players|two players|weak player|Zipf'?s law|these laws|commands and laws"
)
CONTENT = re.compile(  # what environments are made of: games have players, and Search asks about worlds of facts
    r"envs/search/|tests/envs/search|docs/search|tests/retrieval|fakes/retrievers|fakes/listings|fakes/surface|test_answers_look|sokoban|textworld|envs/duels/|test_duels|envs/sql/|alfworld"
    r"|/packages/|/sites/|web/words|code/families/simulation|docs/decisions\.md|desk/"
)
SKIP = {"test_words.py"}
PART = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+")
SEED = re.compile(r"\b(derive|generator)\(\"(world|player)")
FILES = sorted(
    path
    for folder in ("agentgym", "tests", "examples", "benchmarks", "docs")
    for pattern in ("*.py", "*.md", "*.toml", "prompts/*.txt")
    for path in (ROOT / folder).rglob(pattern)
    if path.name not in SKIP and not CONTENT.search(path.relative_to(ROOT).as_posix())
)


def old_parts(name: str) -> set[str]:
    return {part.lower() for part in PART.findall(NAMES.sub("", name))} & OLD


@functools.cache
def old_words(text: str) -> list[str]:
    plain = PHRASES.sub("", NAMES.sub("", text))
    return [
        word for word in re.findall(r"[A-Za-z_]\w*", plain) if word not in KEEP and (old_parts(word) or word in OLD_NAMES)
    ]


def names_and_prose(path: Path) -> Iterator[tuple[int, str]]:
    """Yield the lines' identifiers, comments and strings of the package's Python (of tests no strings but docstrings).

    Of other files it is every line. The keys of a seed are what they were, or every run would be another.
    """
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        yield from enumerate(text.splitlines(), 1)
        return
    docs = {
        node.value.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    whole = path.is_relative_to(ROOT / "agentgym")
    kinds = (tokenize.NAME, tokenize.COMMENT)
    lines = text.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        string = token.type == tokenize.STRING and (whole or token.start[0] in docs)
        if token.type in kinds or (string and not SEED.search(lines[token.start[0] - 1])):
            yield token.start[0], token.string


def test_no_old_word_is_a_name_or_stands_in_prose():
    wrong = [
        f"{path.relative_to(ROOT)}:{line}: {', '.join(words)}"
        for path in FILES
        for line, text in names_and_prose(path)
        if (words := old_words(text))
    ]
    assert not wrong, f"{len(wrong)}\n" + "\n".join(wrong[:80])


def test_no_file_has_an_old_word_in_its_name():
    wrong = [
        str(path) for path in FILES if old_parts(path.stem) and not re.search(r"alfworld|scienceworld|textworld", path.stem)
    ]
    assert not wrong


def sentences(path: Path) -> Iterator[str]:
    """Yield the texts of a file that a user may read: strings of several words, docstrings left out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        yield from re.findall(r"[\"`]([^\"`\n]* [^\"`\n]*)[\"`]", re.sub(r"(?m)//.*$|\bfaults?(?=:)", "", text))
        return
    tree = ast.parse(text)
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docs and " " in node.value:
            yield node.value


def test_what_is_printed_says_infrastructure_errors():
    """`fault` is the data's word (a field, a flag); people read `infrastructure error` on screens, pages and in errors."""
    files = [*(ROOT / "agentgym").rglob("*.py"), *(ROOT / "agentgym/report").rglob("*.js")]
    files = [path for path in files if not CONTENT.search(path.relative_to(ROOT).as_posix())]
    wrong = [
        f"{path.relative_to(ROOT)}: {said!r}"
        for path in files
        for said in sentences(path)
        if re.search(r"(?<![-.])\bfaults?\b(?!\")", re.sub(r"\$\{[^}]*\}", "", said))
    ]
    assert len(files) > 100 and not wrong, "\n".join(wrong)


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    if page.stem not in ("api", "architecture", "benchmarks", "credit_bench", "decisions", "household", "templates")
]
"""Pages for users; the others are made from the code, or tell what was measured and decided at a date."""
TRANSLATED = re.compile(
    r"(?i)\b(?:where there (?:is|are)|that is none|anew|one's own|one of your own|goes on|(?:made )?from nothing"
    r"|the very (?:same|prompt|tokens)|at the most|(?:agents?|trainers?|harnesses) of others|as ever|as wanted"
    r"|so many (?:of|as)|does nothing (?:with|without))\b"
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_have_no_turns_of_phrase_that_sound_translated(page: Path):
    text = re.sub(r"(?ms)^```.*?^```", "", page.read_text(encoding="utf-8"))
    assert not TRANSLATED.findall(text)


def test_messages_have_no_turns_of_phrase_that_sound_translated():
    files = [path for path in (ROOT / "agentgym").rglob("*.py") if not CONTENT.search(path.relative_to(ROOT).as_posix())]
    files = [path for path in files if path.is_relative_to(ROOT / "agentgym/envs") is False]
    wrong = [f"{path.relative_to(ROOT)}: {said!r}" for path in files for said in sentences(path) if TRANSLATED.search(said)]
    assert not wrong, "\n".join(wrong)


def test_keys_of_a_run_have_the_field_s_names():
    from agentgym.cli.eval import Config
    from agentgym.trainers.config.train_config import TrainConfig

    now = {field.name for kind in (TrainConfig, Config) for field in fields(kind)}
    assert not now & OLD_KEYS


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a world of text", ["world"]),
        ("hello world, the real world, TextWorld and ALFWorld", []),
        ("self._open_jail(WORLD_SIZE)", ["_open_jail"]),
        ("RemoteWorld and warm_episodes", ["RemoteWorld", "warm_episodes"]),
        ("a sandbox of the environment", []),
    ],
)
def test_an_old_word_is_seen(text: str, words: list[str]):
    assert old_words(text) == words
