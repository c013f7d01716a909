"""What users read says the same thing by the same words: keys of a run, messages and pages."""

import ast
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
from sources import parsed

ROOT = Path(__file__).resolve().parent.parent
OLD_KEYS = {
    "warm_episodes", "warm_batch", "warm_lr", "warm_muon", "warm_noise", "warm_invalid", "warm_forget", "weighing", "ratio",
    "mismatch_cap", "negative", "checkpointing", "lr_decay", "weights", "pieces", "player", "law", "worlds",
    "dynamic_sampling", "refill_rounds",
}  # fmt: skip

CONTENT = re.compile(  # what environments are made of: games have players, and Search asks about worlds of facts
    r"envs/search/|tests/envs/search|docs/search|tests/retrieval|fakes/retrievers|fakes/listings|fakes/surface|test_answers_look|sokoban|textworld|envs/duels/|test_duels|envs/sql/|alfworld"
    r"|/packages/|/sites/|web/words|code/families/simulation|docs/decisions\.md|desk/"
)


@cache
def sentences(path: Path) -> list[str]:
    """Return the texts of a file that a user may read: strings of several words, docstrings left out."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".js":
        return re.findall(r"[\"`]([^\"`\n]* [^\"`\n]*)[\"`]", re.sub(r"(?m)//.*$|\bfaults?(?=:)", "", text))
    nodes = list(ast.walk(parsed(text)))
    docs = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    texts = [node.value for node in nodes if isinstance(node, ast.Constant) and id(node) not in docs]
    return [text for text in texts if isinstance(text, str) and " " in text]


def test_what_is_printed_says_infrastructure_errors():
    """`fault` is the data's word (a field, a flag); people read `infrastructure error` on screens, pages and in errors."""
    files = [*(ROOT / "agentgym").rglob("*.py"), *(ROOT / "agentgym/report").rglob("*.js")]
    files = [path for path in files if not CONTENT.search(path.relative_to(ROOT).as_posix())]
    wrong = [
        f"{path.relative_to(ROOT)}: {sentence!r}"
        for path in files
        for sentence in sentences(path)
        if re.search(r"(?<![-.])\bfaults?\b(?!\")", re.sub(r"\$\{[^}]*\}", "", sentence))
    ]
    assert len(files) > 100 and not wrong, "\n".join(wrong)


PAGES = [
    page
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    if "made" not in page.parts and page.stem not in ("api", "architecture", "household")
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
    wrong = [
        f"{path.relative_to(ROOT)}: {sentence!r}"
        for path in files
        for sentence in sentences(path)
        if TRANSLATED.search(sentence)
    ]
    assert not wrong, "\n".join(wrong)


def test_keys_of_a_run_have_the_field_s_names():
    from agentgym.cli.eval import Config
    from agentgym.trainers.config.train_config import TrainConfig

    now = {field.name for kind in (TrainConfig, Config) for field in fields(kind)}
    assert not now & OLD_KEYS


ARRAY = r"np\.ndarray|NDArray|\bTensor\b"
SHAPE = re.compile(r"\[[^\]]+\]|\bscalar\b")


def array_functions(tree: ast.Module) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield the public functions and methods whose return annotation names an array, or an alias of one in their module."""
    aliases = [
        node.targets[0].id
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
        if re.search(ARRAY, value := ast.unparse(node.value)) and "(" not in value and "Callable" not in value
    ]
    arrays = re.compile("|".join([ARRAY, *(rf"\b{name}\b" for name in aliases)]))
    classes = [node.body for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and not node.name.startswith("_")]
    for body in (tree.body, *classes):
        for node in body:
            if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_") or not node.returns:
                continue
            if arrays.search(returned := ast.unparse(node.returns)) and not returned.startswith("Callable"):
                yield node


def test_docstrings_of_functions_that_return_arrays_give_shapes():
    """`[tokens, width]`, or `scalar`."""
    found, wrong = 0, list[str]()
    for path in (ROOT / "agentgym").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        for node in array_functions(parsed(text)) if re.search(ARRAY, text) else ():
            found += 1
            if not SHAPE.search(ast.get_docstring(node) or ""):
                wrong.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}")
    assert found > 80 and not wrong, "\n".join(wrong)


PARTICIPLES = {"said", "told", "held", "kept", "asked", "given", "taken", "apart", "some", "shown"}
"""Names that do not say what a variable, an attribute or a function stands for."""
SPELLED = re.compile(rf"\b_*(?:{'|'.join(PARTICIPLES)})_*\b")


def names(tree: ast.AST) -> Iterator[tuple[str, int]]:
    """Yield the names and lines of functions, classes, parameters, attributes and variables, without leading underscores."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name.strip("_"), node.lineno
        elif isinstance(node, ast.arg):
            yield node.arg.strip("_"), node.lineno
        elif isinstance(node, ast.Attribute):
            yield node.attr.strip("_"), node.lineno
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id.strip("_"), node.lineno


def test_names_are_nouns_or_verbs_that_say_what_they_stand_for():
    files = [
        path for folder in ("agentgym", "benchmarks", "docs", "examples", "tests") for path in (ROOT / folder).rglob("*.py")
    ]
    wrong = set()
    for path in files:
        place, text = path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")
        if "/packages/" in place or not SPELLED.search(text):
            continue
        wrong |= {f"{place}:{line}: {name}" for name, line in names(parsed(text)) if name in PARTICIPLES}
    assert len(files) > 1000 and not wrong, "\n".join(sorted(wrong))
