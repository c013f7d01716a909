"""IFEval checkers (arXiv 2311.07911), with the verdicts of lm-eval 0.4.13 and if-verifiable 0.1.2."""

import json
import re
from collections.abc import Sequence

from agentgym.envs.instructions.published.checks import Table, checker, compared, finds
from agentgym.envs.instructions.published.text import count_sentences, count_words, language, tokens

CHECKS: Table = {}
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@checker(CHECKS, "keywords:existence", keywords="literals")
def _existence(text: str, keywords: Sequence[str]) -> bool:
    return all(finds(word, text) for word in keywords)


@checker(CHECKS, "keywords:frequency", keyword="literal", frequency="count", relation="relation")
def _frequency(text: str, keyword: str, frequency: int, relation: str) -> bool:
    return compared(finds(keyword, text), relation, frequency)


@checker(CHECKS, "keywords:forbidden_words", forbidden_words="literals")
def _forbidden(text: str, forbidden_words: Sequence[str]) -> bool:
    return not any(finds(rf"\b{word}\b", text) for word in forbidden_words)


@checker(CHECKS, "keywords:letter_frequency", letter="letter", let_frequency="count", let_relation="relation")
def _letters(text: str, letter: str, let_frequency: int, let_relation: str) -> bool:
    return compared(text.lower().count(letter), let_relation, let_frequency)


@checker(CHECKS, "language:response_language", needs="langdetect", language="word")
def _language(text: str, **named: str) -> bool:
    return language(text) in (None, named["language"])


@checker(CHECKS, "length_constraints:number_sentences", "sentence tokenizer", num_sentences="count", relation="relation")
def _sentences(text: str, num_sentences: int, relation: str) -> bool:
    return compared(count_sentences(text), relation, num_sentences)


@checker(CHECKS, "length_constraints:number_paragraphs", num_paragraphs="count")
def _paragraphs(text: str, num_paragraphs: int) -> bool:
    parts = [bool(part.strip()) for part in text.split("***")]
    return all(parts[1:-1]) and sum(parts) == num_paragraphs


@checker(CHECKS, "length_constraints:number_words", num_words="count", relation="relation")
def _words(text: str, num_words: int, relation: str) -> bool:
    return compared(count_words(text), relation, num_words)


@checker(
    CHECKS, "length_constraints:nth_paragraph_first_word", num_paragraphs="count", nth_paragraph="place", first_word="text"
)
def _first_word(text: str, num_paragraphs: int, nth_paragraph: int, first_word: str) -> bool:
    """Check the number of paragraphs and the first word of one; only `nth_paragraph` counts empty paragraphs."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    full = sum(map(bool, paragraphs))
    if not 0 < nth_paragraph <= full or not paragraphs[nth_paragraph - 1]:
        return False
    word = paragraphs[nth_paragraph - 1].split()[0].lstrip("'").lstrip('"')
    return full == num_paragraphs and re.split("[.,?!'\"]", word)[0].lower() == first_word.lower()


@checker(CHECKS, "detectable_content:number_placeholders", num_placeholders="count")
def _placeholders(text: str, num_placeholders: int) -> bool:
    found = 0
    for line in text.split("\n"):
        place = line.find("[")
        while place >= 0 and (end := line.find("]", place)) >= 0:
            found += 1
            place = line.find("[", end)
    return found >= num_placeholders


@checker(CHECKS, "detectable_content:postscript", postscript_marker="literal")
def _postscript(text: str, postscript_marker: str) -> bool:
    patterns = {"P.P.S": r"p\.\s?p\.\s?s", "P.S.": r"p\.\s?s\."}
    return re.search(patterns.get(postscript_marker, postscript_marker.lower()), text.lower()) is not None


@checker(CHECKS, "detectable_format:number_bullet_lists", num_bullets="count")
def _bullets(text: str, num_bullets: int) -> bool:
    return _marked(text, "*") + _marked(text, "-") == num_bullets


def _marked(text: str, mark: str) -> int:
    """Return the number of lines starting with a mark after white space; `*` only before a character other than `*`.

    White space may span empty lines. A `*` alone on its line includes the next line.
    """
    count = start = 0
    while start < len(text):
        rest = text[start : start + 1]
        place = start
        while rest.isspace():
            place += 1
            rest = text[place : place + 1]
        if not rest:
            break
        after = text[place + 1 : place + 2]
        good = rest == mark and (mark == "-" or (after not in ("", "*")))
        count += good
        end = text.find("\n", place + 2 if good and mark == "*" else place)
        if end < 0:
            break
        start = end + 1
    return count


@checker(CHECKS, "detectable_format:constrained_response")
def _constrained(text: str) -> bool:
    return any(answer in text for answer in ANSWERS)


@checker(CHECKS, "detectable_format:number_highlighted_sections", num_highlights="count")
def _highlights(text: str, num_highlights: int) -> bool:
    """Check for `num_highlights` highlights; double stars count as such, and again as part of pairs of single stars."""
    single, double = re.findall(r"\*([^\n*]*)\*", text), re.findall(r"\*\*([^\n*]*)\*\*", text)
    return sum(bool(part.strip()) for part in (*single, *double)) >= num_highlights


@checker(CHECKS, "detectable_format:multiple_sections", section_spliter="literal", num_sections="count")
def _sections(text: str, section_spliter: str, num_sections: int) -> bool:
    return len(re.findall(rf"{section_spliter}\s?\d+", text)) >= num_sections


@checker(CHECKS, "detectable_format:json_format")
def _json(text: str) -> bool:
    text = text.strip()
    for fence in ("```json", "```Json", "```JSON", "```"):
        text = text.removeprefix(fence)
    try:
        json.loads(text.removesuffix("```").strip())
    except (ValueError, RecursionError):
        return False
    return True


@checker(CHECKS, "detectable_format:title")
def _title(text: str) -> bool:
    for line in text.split("\n"):
        begin, end = line.find("<<"), line.rfind(">>")
        if 0 <= begin < end - 2 and line[begin : end + 2].lstrip("<").rstrip(">").strip():
            return True
    return False


@checker(CHECKS, "combination:two_responses")
def _two(text: str) -> bool:
    parts = [part.strip() for part in text.split("******")]
    replies = [part for part in parts if part]
    return all(parts[1:-1]) and len(replies) == 2 and replies[0] != replies[1]


@checker(CHECKS, "combination:repeat_prompt", prompt_to_repeat="text")
def _repeat(text: str, prompt_to_repeat: str) -> bool:
    return text.strip().lower().startswith(prompt_to_repeat.strip().lower())


@checker(CHECKS, "startend:end_checker", end_phrase="text")
def _end(text: str, end_phrase: str) -> bool:
    return text.strip().strip('"').lower().endswith(end_phrase.strip().lower())


@checker(
    CHECKS,
    "change_case:capital_word_frequency",
    "sentence tokenizer",
    capital_frequency="count",
    capital_relation="relation",
)
def _capital_words(text: str, capital_frequency: int, capital_relation: str) -> bool:
    return compared(sum(word.isupper() for word in tokens(text)), capital_relation, capital_frequency)


@checker(CHECKS, "change_case:english_capital", "langdetect")
def _upper(text: str) -> bool:
    return text.isupper() and language(text) in (None, "en")


@checker(CHECKS, "change_case:english_lowercase", "langdetect")
def _lower(text: str) -> bool:
    return text.islower() and language(text) in (None, "en")


@checker(CHECKS, "punctuation:no_comma")
def _no_comma(text: str) -> bool:
    return "," not in text


@checker(CHECKS, "startend:quotation")
def _quotation(text: str) -> bool:
    text = text.strip()
    return len(text) > 1 and text[0] == text[-1] == '"'
