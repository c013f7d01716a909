"""IFBench checkers (arXiv 2507.02833) for words, sentences and counts, equal to if-verifiable 0.1.2."""

import re
import string
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from agentgym.envs.instructions.published import text as texts
from agentgym.envs.instructions.published.checks import Table, checker

WORDS: Table = {}
_NAMES = (
    "Emma Liam Sophia Jackson Olivia Noah Ava Lucas Isabella Mason Mia Ethan Charlotte Alexander Amelia Benjamin Harper Leo "
    "Zoe Daniel Chloe Samuel Lily Matthew Grace Owen Abigail Gabriel Ella Jacob Scarlett Nathan Victoria Elijah Layla "
    "Nicholas Audrey David Hannah Christopher Penelope Thomas Nora Andrew Aria Joseph Claire Ryan Stella Jonathan"
)
NAMES = _NAMES.split()
_PRONOUNS = (
    "i me my mine myself we us our ours ourselves you your yours yourself yourselves he him his himself she her hers "
    "herself it its itself they them their theirs themselves"
)
PRONOUNS = frozenset(_PRONOUNS.split())
CONJUNCTIONS = ("and", "but", "for", "nor", "or", "so", "yet")
PRIMES = frozenset(n for n in range(2, 98) if all(n % d for d in range(2, n)))
CONSONANTS = "[bcdfghjklmnpqrstvwxyz]"


@checker(WORDS, "count:word_count_range", min_words="count", max_words="count")
def _word_count(text: str, min_words: int, max_words: int) -> bool:
    return min_words <= texts.count_words(text) <= max_words


@checker(WORDS, "count:unique_word_count", N="count")
def _unique(text: str, **limit: int) -> bool:
    return len({texts.trimmed(word) for word in text.lower().split()}) >= limit["N"]


@checker(WORDS, "count:conjunctions", small_n="count")
def _conjunctions(text: str, small_n: int) -> bool:
    """Check for `small_n` distinct conjunctions; different spellings of one word (`and`, `And,`) count separately."""
    return len({word for word in text.split() if texts.trimmed(word).lower() in CONJUNCTIONS}) >= small_n


@checker(WORDS, "count:person_names", N="count")
def _names(text: str, **limit: int) -> bool:
    return sum(name in text for name in NAMES) >= limit["N"]


@checker(WORDS, "count:numbers", N="count")
def _numbers(text: str, **limit: int) -> bool:
    return len(re.findall(r"\d+", texts.bare(text))) == limit["N"]


@checker(WORDS, "count:pronouns", N="count")
def _pronouns(text: str, **limit: int) -> bool:
    words = texts.bare(text.replace("/", " ").lower()).split()
    return sum(word in PRONOUNS for word in words) >= limit["N"]


@checker(WORDS, "count:punctuation")
def _punctuation(text: str) -> bool:
    rest = text.replace("?!", "", 1) if "?!" in text else text.replace("!?", "", 1)
    return any(mark in text for mark in ("?!", "!?", "‽")) and all(mark in rest for mark in ".,!?;:")


@checker(WORDS, "count:words_japanese", N="count")
def _japanese(text: str, **cycle: int) -> bool:
    words = [texts.trimmed(word) for word in text.split()]
    counted = [word for word in words[cycle["N"] - 1 :: cycle["N"]] if word and not word.isdigit()] if cycle["N"] else []
    return all(re.search("[\u3040-\u30ff\u4e00-\u9fff]", word) for word in counted)


KEYWORDS = {"keyword1": 1, "keyword2": 2, "keyword3": 3, "keyword4": 5, "keyword5": 7}


@checker(WORDS, "count:keywords_multiple", **dict.fromkeys(KEYWORDS, "word"))
def _keywords(text: str, **keywords: str) -> bool:
    return all(text.lower().count(keywords[name].lower()) == count for name, count in KEYWORDS.items())


@checker(WORDS, "ratio:stop_words", "stop words", percentage="number")
def _stop_words(text: str, percentage: float) -> bool:
    count = texts.count_words(text)
    return count > 0 and texts.count_stop_words(text) / count * 100 <= percentage


def _ends(text: str) -> Counter[str]:
    return Counter(sentence[-1:] for sentence in texts.sentences(text))


@checker(WORDS, "ratio:sentence_type")
def _two_to_one(text: str) -> bool:
    return _ends(text)["."] == 2 * _ends(text)["?"]


@checker(WORDS, "ratio:sentence_balance")
def _balance(text: str) -> bool:
    return len({_ends(text)[mark] for mark in ".?!"}) == 1


@checker(WORDS, "ratio:sentence_words")
def _same_length(text: str) -> bool:
    """Check for three sentences of the same length in characters; like the published checker, ignore word counts."""
    found = texts.sentences(text)
    return len(found) == 3 and len({len(sentence) for sentence in found}) == 1


@checker(WORDS, "ratio:overlap", reference_text="text", percentage="number")
def _overlap(text: str, reference_text: str, percentage: float) -> bool:
    """Check that the share of distinct character trigrams also found in the reference is within 2 points of `percentage`."""
    own, other = ({whole[i : i + 3] for i in range(len(whole) - 2)} for whole in (text, reference_text))
    return bool(own) and percentage - 2 <= len(own & other) / len(own) * 100 <= percentage + 2


@checker(WORDS, "words:alphabet")
def _alphabet(text: str) -> bool:
    words = texts.bare(text).lower().split()
    first = string.ascii_lowercase.find(words[0][0]) if words else -1
    letters = [string.ascii_lowercase[(first + step) % 26] for step in range(len(words))]
    return first >= 0 and all(word[0] == letter for word, letter in zip(words[1:], letters[1:], strict=True))


@checker(WORDS, "words:vowel")
def _vowels(text: str) -> bool:
    return "\n" not in text.strip() and len(set(text.lower()) & set("aeiou")) <= 3


@checker(WORDS, "words:consonants")
def _consonants(text: str) -> bool:
    return all(re.search(CONSONANTS * 2, word) for word in text.lower().split())


@checker(WORDS, "words:palindrome")
def _palindromes(text: str) -> bool:
    words = [word for word in texts.bare(text).lower().split() if len(word) >= 5]
    return sum(word == word[::-1] for word in words) >= 10


@checker(WORDS, "words:prime_lengths")
def _primes(text: str) -> bool:
    return all(len(word) in PRIMES for word in texts.bare(text).split())


@checker(WORDS, "words:start_verb", "tagger")
def _verb(text: str) -> bool:
    return texts.begins_with_verb(text)


@checker(WORDS, "words:repeats", small_n="count")
def _repeats(text: str, small_n: int) -> bool:
    return max(Counter(texts.bare(text.lower()).split()).values(), default=0) <= small_n


@checker(WORDS, "words:odd_even_syllables", "syllapy")
def _parity(text: str) -> bool:
    parities = [texts.syllables(word) % 2 for word in texts.bare(text).lower().split()]
    return all(one != other for one, other in pairwise(parities))


@checker(WORDS, "words:last_first")
def _last_first(text: str) -> bool:
    edge = string.punctuation + " "
    pairs = [(one.rstrip(edge).split(), other.lstrip(edge).split()) for one, other in pairwise(texts.sentences(text))]
    return all(one and other and one[-1].lower() == other[0].lower() for one, other in pairs)


@checker(WORDS, "words:paragraph_last_first")
def _paragraphs(text: str) -> bool:
    lines = [texts.trimmed(line.strip().lower()).split() for line in text.split("\n")]
    return all(words[0] == words[-1] for words in lines if words)


@checker(WORDS, "words:no_consecutive")
def _first_letters(text: str) -> bool:
    return all(one[0] != other[0] for one, other in pairwise(texts.bare(text.lower()).split()))


@checker(WORDS, "words:keywords_specific_position", "sentence tokenizer", keyword="word", n="count", m="count")
def _position(text: str, keyword: str, n: int, m: int) -> bool:
    found = texts.sentences(text)
    words = texts.tokens(found[n - 1]) if 0 < n <= len(found) else []
    return 0 < m <= len(words) and words[m - 1] == keyword


@checker(WORDS, "words:words_position", "sentence tokenizer", keyword="word")
def _second(text: str, keyword: str) -> bool:
    words = texts.tokens(text)
    return len(words) > 1 and words[1] == words[-2] == keyword


@checker(WORDS, "sentence:alliteration_increment")
def _alliteration(text: str) -> bool:
    """Check that the number of alliterating words (runs with the same first letter) grows from sentence to sentence."""
    lengths: list[int] = []
    for sentence in texts.sentences(text):
        words = [word.lstrip(string.punctuation + " ") for word in sentence.lower().split()]
        same = [one[0] == other[0] for one, other in pairwise(filter(None, words))]
        lengths.append(sum(same) + sum(now and not before for before, now in pairwise([False, *same])))
    return all(one < other for one, other in pairwise(lengths))


@checker(WORDS, "sentence:keyword", word="text", N="count")
def _in_sentence(text: str, word: str, **place: int) -> bool:
    found = texts.sentences(text)
    return 0 < place["N"] <= len(found) and word.lower() in found[place["N"] - 1].lower()


def _lengths(found: Sequence[str]) -> list[int]:
    return [len(texts.bare(sentence).split()) for sentence in found]


@checker(WORDS, "sentence:increment", small_n="count")
def _increment(text: str, small_n: int) -> bool:
    return all(other == one + small_n for one, other in pairwise(_lengths(texts.sentences(text))))
