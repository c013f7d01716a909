"""Prompts in text files: the texts of the first message and of each turn, and the form of replies."""

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
"""Other names of prompts: that of a protocol is the name of its prompt too."""
FIELDS = (
    *("task", "observation", "tools", "admissible", "commands", "actions", "history", "step", "taken", "window", "summary"),
)
_SECTION = re.compile(r"^\[(\w+)\][ \t]*$", re.MULTILINE)
_FIELD = re.compile(r"\{([a-z_]+)\}")
_SECTIONS = ("system", "first", "turn", "reply", "summary", "resume", "hint", "most")
HINT = "hint"
"""The only field of section `[hint]`; other sections cannot use it."""
_NO_TEXT = ("reply", "most")


@dataclass(frozen=True, slots=True)
class Section:
    """A text with fields: strings are the prompt's own words, and every second piece is the name of a field."""

    pieces: tuple[str, ...]

    @property
    def fields(self) -> frozenset[str]:
        """Names of the fields."""
        return frozenset(self.pieces[1::2])

    def fill(self, values: Mapping[str, Callable[[], str]]) -> list[str]:
        """Return the pieces with fields replaced, once, by foreign text; braces in that text mean nothing."""
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
    """Opening of a conversation: a system message, if there is any, and a user message, as pieces."""

    system: list[str]
    user: list[str]

    @property
    def messages(self) -> list[dict[str, object]]:
        """The opening as chat messages."""
        messages = [("system", self.system)] if self.system else []
        return [{"role": role, "content": "".join(pieces)} for role, pieces in [*messages, ("user", self.user)]]


@dataclass(frozen=True, slots=True)
class Prompt:
    """Texts of an agent: the system message, the first and every later user message, and the form of the reply."""

    name: str
    system: Section
    first: Section
    turn: Section
    reply: Reply
    summary: Section | None = None
    """Request of `SummaryAgent` when its memory is full; None for that of the prompt `summary`."""
    resume: Section | None = None
    """Text in place of the observation in the first message after a summary; None for that of the prompt `summary`."""
    hint: Section = _HINT_SECTION
    """End of the first message in a training episode with a hint."""
    most: int | None = None
    """Maximum characters of a later message, beyond which `first` replaces it; None means no limit."""

    def shows(self, tools: Mapping[str, Tool]) -> bool:
        """True if it tells of every tool before the first reply: it lists them, or its own words have each one's name."""
        sections = (self.system, self.first)
        if any("tools" in section.fields for section in sections):
            return True
        words = {word for section in sections for piece in section.pieces[::2] for word in re.findall(r"\w+", piece)}
        return words.issuperset(tools)

    def opening(self, values: Mapping[str, Callable[[], str]], *, later: bool = False) -> Opening:
        """Return the opening of a conversation; `later`: of one that starts again after turns, such as a window's."""
        return Opening(self.system.fill(values), self.later(values) if later else self.first.fill(values))

    def hinted(self, opening: Opening, hint: str) -> Opening:
        """Return an opening with a hint as the last paragraph of its user message."""
        return Opening(opening.system, [*opening.user, "\n\n", *self.hint.fill({HINT: lambda: hint})])

    def later(self, values: Mapping[str, Callable[[], str]]) -> list[str]:
        """Return the pieces of a message after the first."""
        pieces = self.turn.fill(values)
        if self.most is not None and sum(map(len, pieces)) > self.most:
            return self.first.fill(values)
        return pieces


def is_file(name: str) -> bool:
    """Return whether the name of a prompt is the path of a file, rather than a short name."""
    return Path(name).suffix == ".txt"


def path_of(name: str | Path) -> Path:
    """Return the file of a prompt: that of a short name in the package, or the path itself."""
    return Path(name) if is_file(str(name)) else FOLDER / f"{ALIASES.get(str(name), name)}.txt"


def load_prompt(name: str | Path | Prompt) -> Prompt:
    """Load a prompt by its short name (`bare`, `react`, the name of a protocol, …) or from a file.

    A file has sections headed `[system]`, `[first]`, `[turn]`, `[reply]`, `[summary]`, `[resume]`, `[hint]` and `[most]`.
    `{field}` is replaced in all sections but `[reply]` and `[most]`, which is a number. `[hint]` has one field, `{hint}`,
    which no other section has. Newlines at the ends of a section are dropped; `{newline}` keeps one.

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
