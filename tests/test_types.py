"""How much of the package is left untyped."""

import ast
import io
import tokenize
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent / "agentgym"
FILES = sorted(ROOT.rglob("*.py"))
MOST_ANY = 12.0
"""Words `Any` in a thousand lines, imports included."""


def words(text: str, word: str) -> int:
    """Count a word among the names of a source, those in quoted types included; comments and prose do not count."""
    count = 0
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.NAME:
            count += token.string == word
        elif token.type == tokenize.STRING and not any(mark in token.string for mark in (" of ", " the ", "\n", ". ")):
            try:
                names = [
                    n.id for n in ast.walk(ast.parse(ast.literal_eval(token.string), mode="eval")) if isinstance(n, ast.Name)
                ]
            except (SyntaxError, ValueError, TypeError):
                continue
            count += names.count(word)
    return count


def test_words_are_counted_in_types_and_not_in_prose():
    source = '"""Any reader of Any."""\nfrom typing import Any\n\nx: dict[str, Any] = cast("list[Any]", y)  # Any\n'
    assert words(source, "Any") == 3


def test_few_types_are_left_open():
    texts = {path: path.read_text(encoding="utf-8") for path in FILES}
    counts = {path: words(text, "Any") for path, text in texts.items() if "Any" in text}
    lines = sum(len(text.splitlines()) for text in texts.values())
    most = ", ".join(f"{path.relative_to(ROOT)} {n}" for path, n in Counter(counts).most_common(12))
    share = 1000 * sum(counts.values()) / lines
    assert share <= MOST_ANY, (
        f"{share:.1f} words `Any` in a thousand lines ({sum(counts.values())} in {lines}); most: {most}"
    )
