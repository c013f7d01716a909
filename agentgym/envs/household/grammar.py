"""Parser of a game file's grammar: reads the words that differ between generations and refuses other unknown text."""

import hashlib
import json
import re
from functools import lru_cache
from typing import Any

from agentgym.envs.household.text import Dialect
from agentgym.errors import BadData

_TASK = re.compile(r'"task"\s*:\s*\[\s*\{\s*"rhs"\s*:\s*("(?:[^"\\]|\\.)*")')
_BLOCK = re.compile(
    r'\s*(?:action\s+(?P<name>[\w/-]+)\s*\{(?P<body>(?:"""(?:.|\n)*?"""|"[^"]*"|[^"}])*)\}'
    r'|grammar\s*::\s*"""(?P<rules>(?:.|\n)*?)"""\s*;)\s*'
)
_FIELD = re.compile(r'(template|feedback|grammar|pddl)\s*::\s*(?:"""((?:.|\n)*?)"""|"([^"]*)")\s*;')
_ARRIVE = re.compile(r"You arrive at \{(lend|r)\.name\}\. #examineReceptacle\.feedback#")
_PUT = re.compile(r"([^\"{}#\[\]|;<>]*)\{o\}([^\"{}#\[\]|;<>]*)\{r\}")
_PUT_TEXT = re.compile(r"([^\"{}#\[\]|;<>]*)\{o\.name\}([^\"{}#\[\]|;<>]*)\{r\.name\}\.")
_PLAIN = re.compile(r"[^;|\"<>\[\]#{}]*")  # text that TextWorld prints verbatim

ACTIONS = {
    "look": ("look", "look"),
    "inventory": ("inventory", "inventory"),
    "examineReceptacle": ("examine {r}", "examineReceptacle"),
    "examineObject": ("examine {o}", "examineObject"),
    "GotoLocation": ("go to [{r.name | receptacleatlocation(r:receptacle, lend:location)}]", "GotoLocation"),
    "OpenObject": ("open {r}", "OpenObject"),
    "CloseObject": ("close {r}", "CloseObject"),
    "PickupObject": ("take {o} from {r}", "PickupObject"),
    "ToggleObject": ("use {o}", "toggleObject"),
    "HeatObject": ("heat {o} with {r}", "heatObject"),
    "CleanObject": ("clean {o} with {r}", "cleanObject"),
    "CoolObject": ("cool {o} with {r}", "coolObject"),
    "SliceObject": ("slice {co} with {ko}", "sliceObject"),
}
"""Action -> its command and the rule `NAME.feedback` for its answer; `PutObject` and `help` vary by generation."""
_NEVER_POSSIBLE = (
    "PickupObjectFromReceptacleObject",
    "PickupEmptyReceptacleObject",
    "PickupFullReceptacleObject",
    "PutObjectInReceptacleObject",
    "PutEmptyReceptacleObjectinReceptacle",
    "PutFullReceptacleObjectInReceptacle",
)
_NAMES = {name.lower() for name in (*ACTIONS, *_NEVER_POSSIBLE, "PutObject", "help")}

RULES: dict[str, str] = {
    "intro": "986656cbd4",
    "OpenObject.feedback": "7a2ddcaaeb",
    "CloseObject.feedback": "07303b90a7",
    "PickupObject.feedback": "76f2ba9b4e",
    "inventory.feedback": "db80a09281",
    "examineReceptacle.feedback": "ff4668bcde",
    "examineObject.feedback": "95d2abfe0d",
    "toggleObject.feedback": "26937c2847",
    "heatObject.feedback": "07cf81423a",
    "cleanObject.feedback": "e63c7f90ea",
    "coolObject.feedback": "93291a1fbb",
    "sliceObject.feedback": "80a9604c5b",
    "look.feedback": "7ce3da3cd2",
    "look-variations": "ee58c9cb10",
    "list_objects_on_the_floor": "d8fe5b3936",
    "list_appliances": "b79d502407",
    "overview(o)": "4e669ec7dc",
    "overview(r)": "4be13bd604",
    "list_empty": "1f4564e69f",
    "list_separator": "4feb363b0b",
    "list_last_separator": "32d88f9f41",
}
"""Rule -> digest of its productions in ALFWorld 0.2 to 0.4; the household environment reproduces these rules."""


def read_grammar(domain: str, grammar: str, where: str = "game") -> tuple[Dialect, str]:
    """Return a game's dialect and the goal's sentence, read from the embedded domain and grammar.

    Raises:
        BadData: a rule or an action has unknown words, or the goal is missing; the message begins with `where`.
    """
    task = _TASK.search(grammar)
    if task is None:
        raise BadData(f"{where}: the grammar has no rule 'task'; expected the line `Your task is to: …`")
    rest = grammar[: task.start(1)] + '""' + grammar[task.end(1) :]  # identical in every game of a generation
    try:
        return _read_dialect(domain, rest), str(json.loads(task[1], strict=False))
    except (BadData, json.JSONDecodeError) as error:
        raise BadData(f"{where}: {error}") from None


@lru_cache(maxsize=16)
def _read_dialect(domain: str, text: str) -> Dialect:
    actions, rules = _parse(text)
    for name in sorted(actions.keys() - _NAMES):
        raise BadData(_unread(f"action {name}", " ".join(actions[name])))
    for name, (template, feedback) in ACTIONS.items():
        if name.lower() in actions and actions[name.lower()] != (template, f"#{feedback}.feedback#"):
            raise BadData(_unread(f"action {name}", " ".join(actions[name.lower()])))
    for name, known in RULES.items():
        if name in rules and digest(rules[name]) != known:
            raise BadData(_unread(f"rule {name}", json.dumps(rules[name])))
    template, feedback = actions.get("putobject", ("", ""))
    command = _PUT.fullmatch(template) if feedback == "#PutObject.feedback#" else None
    put_text, arrive = _PUT_TEXT.fullmatch(_only(rules, "PutObject")), _ARRIVE.fullmatch(_only(rules, "GotoLocation"))
    if command is None:
        raise BadData(_unread("action PutObject", f"{template} {feedback}"))
    if put_text is None:
        raise BadData(_unread("rule PutObject.feedback", _only(rules, "PutObject")))
    if arrive is None:
        raise BadData(_unread("rule GotoLocation.feedback", _only(rules, "GotoLocation")))
    domain = re.sub(r";[^\n]*", "", domain).lower()
    return Dialect(
        put=(command[1], command[2]),
        put_text=(put_text[1], put_text[2]),
        arrive_at_location=arrive[1] == "lend",
        help=_help(actions, rules) if re.search(r"\(:action\s+help\b", domain) else None,
        examine_visible=re.search(r"\?l\s*-\s*location\s*,", domain) is None,
    )


def _parse(text: str) -> tuple[dict[str, tuple[str, str]], dict[str, object]]:
    """Return each action's (template, feedback) by lower-case name, and all rules; later definitions win.

    Raises:
        BadData: the text is not a grammar of ALFWorld's form.
    """
    actions: dict[str, tuple[str, str]] = {}
    rules: dict[str, object] = {}
    position = 0
    while position < len(text.rstrip()):
        block = _BLOCK.match(text, position)
        if block is None:
            raise BadData(_unread("text", text[position : position + 60].strip()))
        fields = {field[1]: field[2] or field[3] for field in _FIELD.finditer(block["body"] or "")}
        if block["name"]:
            actions[block["name"].lower()] = (fields.get("template", ""), fields.get("feedback", ""))
        source = block["rules"] or fields.get("grammar") or "{}"
        if block["name"]:  # TextWorld treats such lines as comments, only in an action's rules
            source = "\n".join(line for line in source.split("\n") if not line.lstrip().startswith("#"))
        try:
            rules |= json.loads(source)
        except (json.JSONDecodeError, TypeError) as error:
            raise BadData(f"the rules of the grammar are no JSON object: {error}; expected ALFWorld's alfred.twl2") from None
        position = block.end()
    return actions, rules


def digest(productions: Any) -> str:
    """Return the digest of a rule's productions, ignoring white space and the case of conditions; "" if malformed."""
    try:
        lines = [(re.sub(r"\s", "", p.get("condition", "")).lower(), p["rhs"]) for p in productions]
    except (AttributeError, KeyError, TypeError):
        return ""
    return hashlib.blake2b(json.dumps(lines).encode(), digest_size=5).hexdigest()


def _only(rules: dict[str, Any], name: str) -> str:
    """Return the text of a rule `NAME.feedback` with a single unconditional production; empty for any other form."""
    match rules.get(f"{name}.feedback"):
        case [{"rhs": str(text), **more}] if not more:
            return text
        case _:
            return ""


def _help(actions: dict[str, tuple[str, str]], rules: dict[str, object]) -> str | None:
    """Return the answer to `help`, from the action (data of 2.1.2 and later) or from a rule; None without `help`.

    Raises:
        BadData: the action has another form.
    """
    if "help" not in actions:
        return None
    template, feedback = actions["help"]
    text = _only(rules, "help") if feedback == "#help.feedback#" else feedback
    if template != "help" or not text.strip() or not _PLAIN.fullmatch(text):
        raise BadData(_unread("action help", f"{template} {text or feedback}"))
    return text.lstrip()


def _unread(what: str, text: str) -> str:
    return (
        f"the grammar's {what} is none that this engine plays: {text[:120]!r}; expected ALFWorld's alfred.twl2, 0.2 to 0.4"
    )
