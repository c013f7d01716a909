"""Prompts in text files: the text of the first message and of later messages, and the form of replies."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from agentgym.agents.encode import MARK, UntrustedText
from agentgym.agents.parse import Reply
from agentgym.core.actions import Tool
from agentgym.errors import BadConfig, UnknownName, no_such

FOLDER = Path(__file__).parent / "prompts"
ALIASES = {"search@search-r1": "search-r1"}
"""Alternative names of prompts: a protocol's name also names its prompt."""
FIELDS = (
    *("task", "observation", "tools", "admissible", "commands", "actions", "history", "step", "taken", "window", "summary"),
)
_SECTION = re.compile(r"^\[(\w+)\][ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"\{([a-z_]+)\}")
_SECTIONS = ("system", "first", "turn", "reply", "summary", "resume", "hint", "most")
HINT = "hint"
"""The only field of section `[hint]`; no other section may use it."""
_NO_TEXT = ("reply", "most")


@dataclass(frozen=True, slots=True)
class Section:
    """A text with fields: even pieces are the prompt's own text, odd pieces are names of fields."""

    pieces: tuple[str, ...]

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(self.pieces[1::2])

    def fill(self, values: Mapping[str, Callable[[], str]]) -> list[str]:
        """Return the pieces with each field replaced by untrusted text; braces in that text are not fields."""
        filled: list[str] = []
        for place, piece in enumerate(self.pieces):
            if place % 2:
                filled.append(UntrustedText(values[piece]()))
            elif piece:
                filled.append(piece)
        return filled


_HINT_SECTION = Section(("Hint: ", HINT, ""))


@dataclass(frozen=True, slots=True)
class Opening:
    """Opening of a conversation: an optional system message and a user message, each as pieces of text."""

    system: list[str]
    user: list[str]

    @property
    def messages(self) -> list[dict[str, object]]:
        """The opening as chat messages."""
        messages = [("system", self.system)] if self.system else []
        return [{"role": role, "content": "".join(pieces)} for role, pieces in [*messages, ("user", self.user)]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """The texts of an agent: system message, first and later user messages, and the form of replies."""

    name: str
    system: Section
    first: Section
    turn: Section
    reply: Reply
    summary: Section | None = None
    """Request for a summary when the memory of `SummaryAgent` is full; None for that of the prompt `summary`."""
    resume: Section | None = None
    """Text that replaces the observation in the first message after a summary; None for that of the prompt `summary`."""
    hint: Section = _HINT_SECTION
    """Text that ends the first message of a training episode with a hint."""
    most: int | None = None
    """Maximum characters of a later message; a longer message is replaced by `first`. None means no limit."""

    def shows(self, tools: Mapping[str, Tool]) -> bool:
        """Return True if the opening mentions every tool: it has the field `tools`, or its own text has each tool's name."""
        sections = (self.system, self.first)
        if any("tools" in section.fields for section in sections):
            return True
        words = {word for section in sections for piece in section.pieces[::2] for word in re.findall(r"\w+", piece)}
        return words.issuperset(tools)

    def opening(self, values: Mapping[str, Callable[[], str]], *, later: bool = False) -> Opening:
        """Return the opening of a conversation; if `later`, its user message is that of a later turn (for a window)."""
        return Opening(self.system.fill(values), self.later(values) if later else self.first.fill(values))

    def hinted(self, opening: Opening, hint: str) -> Opening:
        """Return the opening with the hint as the last paragraph of its user message."""
        return Opening(opening.system, [*opening.user, "\n\n", *self.hint.fill({HINT: lambda: hint})])

    def later(self, values: Mapping[str, Callable[[], str]]) -> list[str]:
        """Return the pieces of a user message after the first: the section `turn`, or `first` if that exceeds `most`."""
        pieces = self.turn.fill(values)
        if self.most is not None and sum(map(len, pieces)) > self.most:
            return self.first.fill(values)
        return pieces


def is_file(name: str) -> bool:
    """Return True if a prompt's name is the path of a file, rather than a short name."""
    return Path(name).suffix == ".txt"


def path_of(name: str | Path) -> Path:
    """Return the path of a prompt's file: `name` itself, or the file in this package with that short name."""
    return Path(name) if is_file(str(name)) else FOLDER / f"{ALIASES.get(str(name), name)}.txt"


def load_prompt(name: str | Path | Prompt) -> Prompt:
    """Load a prompt by its short name (`bare`, `react`, the name of a protocol, …) or from a file (`.txt`).

    A Prompt is returned unchanged.

    A file has sections headed `[system]`, `[first]`, `[turn]`, `[reply]`, `[summary]`, `[resume]`, `[hint]` and
    `[most]`. `[turn]` and `[reply]` are required; `[first]` defaults to `[turn]`. `{field}` is replaced in all sections
    except `[reply]` and `[most]`; `[most]` is a number. `{hint}` is the only field of `[hint]`, and no other section
    may use it. Newlines at the ends of a section are dropped; `{newline}` keeps one.

    Raises:
        UnknownName: no prompt has the short name.
        BadConfig: the file cannot be read or parsed; the message names the file and the defect.
    """
    if isinstance(name, Prompt):
        return name
    path = path_of(name)
    if not is_file(str(name)) and (path.parent != FOLDER or not path.is_file()):
        known = [*(file.stem for file in FOLDER.glob("*.txt")), *ALIASES]
        raise UnknownName(
            no_such(
                "prompt",
                str(name),
                known,
                f"Known: {', '.join(sorted(known))}; or give the path of a .txt file of your own.",
            )
        )
    try:
        return parse_prompt(path.read_text(encoding="utf-8-sig"), path.stem)
    except (OSError, UnicodeDecodeError) as error:
        raise BadConfig(f"prompt file {path}: {error}") from error


def parse_prompt(text: str, name: str) -> Prompt:
    """Parse the text of a prompt file.

    Raises:
        BadConfig: a section or field is unknown, missing or malformed, or the text has reserved characters.
    """
    if MARK.search(text):
        raise BadConfig(f"prompt {name}: the characters U+E000 and U+E001 are reserved")
    pieces = _SECTION.split(text)
    if pieces[0].strip():
        raise BadConfig(f"prompt {name}: text before the first section; start with a line [system] or [turn]")
    bodies: dict[str, str] = {}
    for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
        if title not in _SECTIONS:
            raise BadConfig(no_such(f"section of prompt {name}", title, _SECTIONS))
        bodies[title] = body.strip("\n").replace("{newline}", "\n")
    if "turn" not in bodies or "reply" not in bodies:
        raise BadConfig(f"prompt {name}: the sections [turn] and [reply] are needed; found {sorted(bodies)}")
    sections = {title: Section(tuple(_FIELD.split(bodies.get(title, "")))) for title in _SECTIONS if title not in _NO_TEXT}
    if "first" not in bodies:
        sections["first"] = sections["turn"]
    for title, section in sections.items():
        known = (HINT,) if title == HINT else FIELDS
        for field in section.fields:
            if field not in known:
                raise BadConfig(no_such(f"field of [{title}] of prompt {name}", field, known))
    if HINT in bodies and HINT not in sections[HINT].fields:
        raise BadConfig(f"prompt {name}: [hint] has no {{hint}}, so the hint would not be shown; put the field into it")
    optional = {title: sections[title] for title in ("summary", "resume", HINT) if title in bodies}
    most = bodies.get("most")
    if most is not None and not (most.isascii() and most.isdigit()):
        raise BadConfig(f"prompt {name}: [most] is {most!r}; expected a number of characters")
    reply = Reply.read(bodies["reply"], name)
    limit = None if most is None else int(most)
    return Prompt(name, sections["system"], sections["first"], sections["turn"], reply, **optional, most=limit)
