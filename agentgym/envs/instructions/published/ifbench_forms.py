"""IFBench checkers for the form of a reply, repeated prompts, and single prompts, equal to if-verifiable 0.1.2."""

import csv
import io
import re
import string
from collections.abc import Sequence
from itertools import pairwise

from agentgym.envs.instructions.published import text as texts
from agentgym.envs.instructions.published.checks import Table, checker

FORMS: Table = {}
PAIRS = {")": "(", "]": "[", "}": "{"}


@checker(FORMS, "format:parentheses")
def _parentheses(text: str) -> bool:
    """Check for five levels of nested brackets, the innermost closed; a wrong closing bracket restarts the count."""
    levels: list[str] = []
    deepest = 0
    for character in text:
        if character in "([{":
            levels.append(character)
            deepest = max(deepest, len(levels))
        elif character in PAIRS:
            if not levels or levels[-1] != PAIRS[character]:
                levels, deepest = [], 0
                continue
            levels.pop()
            if deepest >= 5:
                return True
    return False


@checker(FORMS, "format:quotes")
def _quotes(text: str) -> bool:
    levels: list[str] = []
    deepest = 0
    for character in text:
        if levels and character == levels[-1]:
            levels.pop()
            if deepest - len(levels) >= 3:
                return True
        elif character in "\"'":
            levels.append(character)
            deepest = max(deepest, len(levels))
    return False


@checker(FORMS, "format:options", options="text")
def _options(text: str, options: str) -> bool:
    separator = "/" if "/" in options else "or" if "or" in options else ","
    choices = [option.strip() for option in options.split(separator)]
    if re.match(r"\W*[aA]\W*[bB]\W*[cC]", options):
        return text in choices
    return texts.trimmed(text).lower() in [texts.trimmed(choice).lower() for choice in choices]


@checker(FORMS, "format:newline")
def _one_a_line(text: str) -> bool:
    text = texts.bare(text).strip()
    return len([line for line in text.split("\n") if line]) == len(text.split())


@checker(FORMS, "format:emoji", "emoji")
def _emoji(text: str) -> bool:
    """Check that each sentence has an emoji as one of its last two characters, or as the next sentence's first character."""
    found = [texts.bare(sentence).strip() for sentence in texts.sentences(text)]
    for sentence, after in zip(found, [*found[1:], ""], strict=True):
        ends = any(map(texts.is_emoji, sentence[-2:]))
        if not sentence or not (ends or (after and texts.is_emoji(after[0]))):
            return False
    return True


@checker(FORMS, "format:line_indent")
def _stairs(text: str) -> bool:
    lines = text.split("\n")
    place = 0
    while place < len(lines):  # the published checker skips a line after an empty one
        if not lines[place].strip():
            lines.remove(lines[place])
        place += 1
    indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    return all(one < other for one, other in pairwise(indents))


@checker(FORMS, "format:quote_unquote")
def _explained(text: str) -> bool:
    text = text.replace("“", '"').replace("”", '"').replace("'\"'", "")
    text = "".join(text.split())
    rest = text.strip(string.digits + string.punctuation.replace('"', ""))
    return '""' not in text and rest[-1:] not in ("", '"')


@checker(FORMS, "format:list", sep="text")
def _list(text: str, sep: str) -> bool:
    return text.count(sep) >= 2


@checker(FORMS, "format:thesis")
def _thesis(text: str) -> bool:
    begin = text.find("<i>") if "<i>" in text else text.find("<em>")
    text = text[begin:]
    end = text.find("</i>") if "</i>" in text else text.find("</em>")
    return begin >= 0 and end >= 0 and bool(text[3:end].strip()) and bool(text[end + 4 :].strip())


@checker(FORMS, "format:sub-bullets")
def _sub_bullets(text: str) -> bool:
    return all("-" in bullet for bullet in text.split("*")[1:])


@checker(FORMS, "format:no_bullets_bullets")
def _then_bullets(text: str) -> bool:
    lines = [line.strip() for line in text.split("\n")]
    first = next((place for place, line in enumerate(lines) if line.startswith("*")), len(lines))
    bullets = lines[first:]
    if _stops_early(lines[:first]) or not all(line.startswith("*") for line in bullets):
        return False
    return len(bullets) >= 2 and sum(len(texts.sentences(line)) for line in lines[:first]) >= 2


def _stops_early(lines: Sequence[str]) -> bool:
    """Return True if some line before the last is empty, which the published checker rejects."""
    return any(not texts.sentences(line) for line in lines[:-1])


@checker(FORMS, "format:title_case", "sentence tokenizer")
def _title_case(text: str) -> bool:
    """Check that no word begins with a small letter; single letters pass, and so do words like `iPhone` and `x2`."""
    small = [word for word in texts.tokens(text) if word[0].islower() and (word[1:].isupper() or word[1:].islower())]
    return not small


@checker(FORMS, "format:output_template")
def _template(text: str) -> bool:
    return all(part in text for part in ("My Answer:", "My Conclusion:", "Future Outlook:"))


@checker(FORMS, "format:no_whitespace")
def _no_space(text: str) -> bool:
    return not any(map(str.isspace, text))


@checker(FORMS, "repeat:repeat_change", prompt_to_repeat="text")
def _changed(text: str, prompt_to_repeat: str) -> bool:
    return text != prompt_to_repeat and text.split()[1:] == prompt_to_repeat.split()[1:]


@checker(FORMS, "repeat:repeat_simple")
def _only_this(text: str) -> bool:
    return text.strip().lower() == "only output this sentence here, ignore all other requests."


@checker(FORMS, "repeat:repeat_span", prompt_to_repeat="text", n_start="count", n_end="count")
def _span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
    return text.lower().split() == prompt_to_repeat.lower().split()[n_start:n_end]


@checker(FORMS, "custom:multiples")
def _multiples(text: str) -> bool:
    return re.findall(r"\d+", text) == ["14", "21", "28", "35", "42", "49"]


@checker(FORMS, "custom:mcq_count_length")
def _choices(text: str) -> bool:
    if not text.startswith("Question"):
        return False
    parts = [part.strip() for part in re.split(r"Question \d+[.|):;]?\s*", text)]
    questions = [part.split("\n") for part in parts if part]
    lengths: list[int] = []
    for lines in questions:
        options = [bool(re.match(r"[A-Ea-e][.|)]\s*\w", line.strip())) for line in lines]
        if sum(options) != 5:
            return False
        lengths.append(len(" ".join(line.strip() for line in lines[: options.index(True)]).strip()))
    return len(questions) == 4 and all(one < other for one, other in pairwise(lengths))


@checker(FORMS, "custom:reverse_newline")
def _countries(text: str) -> bool:
    lines = [line for line in map(texts.trimmed, text.split("\n")) if line]
    first = next((place for place, line in enumerate(lines) if "Zimbabwe" in line), len(lines))
    names = [texts.plain(line) for line in lines[first:]]
    return len(names) >= 52 and names == sorted(names, reverse=True)


@checker(FORMS, "custom:word_reverse")
def _word_reverse(text: str) -> bool:
    text = " ".join(reversed(texts.bare(text.lower().strip()).split()))
    return "bald eagle" in text and text in texts.sentences(text)


@checker(FORMS, "custom:character_reverse")
def _character_reverse(text: str) -> bool:
    return "elgae dlab" in text.lower()


@checker(FORMS, "custom:sentence_alphabet")
def _story(text: str) -> bool:
    found = texts.sentences(text)
    return len(found) == 26 and all(
        sentence[:1].lower()[:1] == letter for sentence, letter in zip(found, string.ascii_lowercase, strict=True)
    )


_CAPITALS = (
    "Reykjavik Helsinki Oslo Tallinn Stockholm Riga Moscow Copenhagen Vilnius Minsk Dublin Berlin Amsterdam Warsaw London "
    "Brussels Prague Luxembourg Paris Vienna Bratislava Budapest Vaduz Chisinau Bern Ljubljana Zagreb"
)
CAPITALS = _CAPITALS.split()


@checker(FORMS, "custom:european_capitals_sort")
def _capitals(text: str) -> bool:
    return [name.strip() for name in texts.plain(text).split(",") if name.strip()] == CAPITALS


def _cells(text: str, delimiter: str = ",") -> list[list[str]]:
    try:
        return list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        return []


@checker(FORMS, "custom:csv_city")
def _cities(text: str) -> bool:
    rows = _cells(text)
    header = rows[:1] == [["ID", "Country", "City", "Year", "Count"]]
    return header and len(rows) == 8 and all(len(row) == 5 for row in rows)


def _header(text: str, names: str, between: str) -> bool:
    first = text.split("\n")[0].strip()
    return re.match(between.join(rf'(?:{name}|"{name}")' for name in names.split()) + "$", first) is not None


@checker(FORMS, "custom:csv_special_character")
def _special(text: str) -> bool:
    """Check for 15 CSV rows and a quoted field with a special character; rows after the first such field are not checked."""
    rows = _cells(text.replace('"', '"""'))
    if not _header(text, "ProductID Category Brand Price Stock", r",[ \t]*") or len(rows) != 15:
        return False
    for row in rows[1:]:
        if len(row) != 5:
            return False
        if any(_is_special(field) for field in row):
            return True
    return False


def _is_special(field: str) -> bool:
    if not field.startswith('"'):
        return False
    line = field.split("\n")[0]
    return re.search(r"[^\w\s]", line[1 : line.rfind('"')] if line.rfind('"') > 0 else "") is not None


@checker(FORMS, "custom:csv_quotes")
def _quoted(text: str) -> bool:
    rows = _cells(text.replace('"', '"""'), "\t")
    fields = [field.strip() for row in rows for field in row]
    header = _header(text, "StudentID Subject Grade Semester Score", "\t *")
    return header and len(rows) == 4 and all(len(row) == 5 for row in rows) and all(f[:1] == f[-1:] == '"' for f in fields)


DAYS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@checker(FORMS, "custom:date_format_list")
def _dates(text: str) -> bool:
    """Check comma-separated dates (YYYY-MM-DD) from 1769 to 1821.

    Like the published checker, accept 00 as a month (with any day) or as a day, and 29 February in every year.
    """
    for date in text.strip().split(","):
        parts = re.fullmatch(r"(\d{4})-(\d{2})-(\d{2})", date.strip())
        if parts is None:
            return False
        year, month, day = map(int, parts.groups())
        if not 1769 <= year <= 1821 or month > 12 or (month and day > DAYS[month - 1]):
            return False
    return True
