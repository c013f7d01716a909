"""Strings: words and characters, filtered, sorted, replaced and counted."""

from agentgym.envs.code.families.family import Frame, ProgramFamily, ProgramSpec, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, letter, one, words

CHARACTERS = "aaabbcdeeefgiilmnoorstuxyzABCEHLMT0123345789..,,--!? "


def _sentence(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    return [" ".join(words(rng, difficulty))]


def _text(rng: Rng, difficulty: int, _: ProgramSpec) -> list[object]:
    if rng.random() < 0.1:
        return ["" if rng.random() < 0.4 else one("aZ7.", rng)]
    drawn: list[str] = []
    for _number in range(int(rng.integers(3, 16 + 4 * difficulty))):
        drawn.append(drawn[-1] if drawn and rng.random() < 0.25 else one(CHARACTERS, rng))
    return ["".join(drawn)]


FRAMES = (
    Frame(
        "`text` is a string of lowercase words separated by single spaces; it may be empty.",
        "text",
        _sentence,
        "words = text.split()",
        gives="words",
        asks="Start with the list of its words and apply these steps in order:",
    ),
    Frame(
        "`words` is a list of words in uppercase and lowercase letters.",
        "words",
        lambda rng, difficulty, _: [words(rng, difficulty, mixed=True)],
        "words = list(words)",
        gives="words",
    ),
    Frame("`text` is a string of letters, digits, spaces and punctuation; it may be empty.", "text", _text, gives="text"),
)
WORDS = (
    Rule(
        "Drop the words with fewer than $n characters.",
        "words = [word for word in words if len(word) >= $n]",
        ("words = [word for word in words if len(word) > $n]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Drop the words with more than $n characters.",
        "words = [word for word in words if len(word) <= $n]",
        ("words = [word for word in words if len(word) < $n]",),
        {"n": integer(4, 7)},
    ),
    Rule(
        "Drop the words that contain the letter $c, in uppercase or lowercase.",
        "words = [word for word in words if $c not in word.lower()]",
        ("words = [word for word in words if not word.startswith($c)]", "words = [word for word in words if $c in word]"),
        {"c": choice(*"aeiost")},
    ),
    Rule("Reverse every word.", "words = [word[::-1] for word in words]", ("words = words[::-1]",)),
    Rule("Reverse the order of the words.", "words = words[::-1]", ("words = [word[::-1] for word in words]",)),
    Rule(
        "Sort the words by length, shortest first; words of the same length in the order in which Python compares strings.",
        "words = sorted(words, key=lambda word: (len(word), word))",
        ("words = sorted(words, key=len)", "words = sorted(words)"),
    ),
    Rule(
        "Sort the words by their last character, ignoring case; the sort is stable.",
        "words = sorted(words, key=lambda word: word[-1:].lower())",
        ("words = sorted(words, key=lambda word: (word[-1:].lower(), word))", "words = sorted(words)"),
    ),
    Rule(
        "Drop duplicate words, keeping the first of each.",
        "words = list(dict.fromkeys(words))",
        ("words = sorted(set(words))", "words = [word for word in words if words.count(word) == 1]"),
    ),
    Rule(
        "Move the first $n words to the end; if there are fewer, leave the list unchanged.",
        "words = words[$n:] + words[:$n] if len(words) >= $n else words",
        ("words = words[-$n:] + words[:-$n] if len(words) >= $n else words", "words = words[$n:]"),
        {"n": integer(1, 3, 1)},
    ),
    Rule(
        "Keep only the words whose index (from 0) is divisible by $n.",
        "words = words[::$n]",
        ("words = words[$n - 1::$n]",),
        {"n": integer(2, 3)},
    ),
    Rule(
        "Append $s and its length to each word.",
        "words = [word + $s + str(len(word)) for word in words]",
        ("words = [str(len(word)) + $s + word for word in words]",),
        {"s": choice(":", "-", "=", "#")},
    ),
    Rule(
        "Truncate every word to its first $n characters.",
        "words = [word[:$n] for word in words]",
        ("words = [word[-$n:] for word in words]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Join the words with $s.",
        "text = $s.join(words)",
        ("text = ''.join(word + $s for word in words)",),
        {"s": choice(" ", "-", ", ", "_", "+")},
        gives="text",
    ),
)
TEXT = (
    Rule(
        "Remove every vowel (a, e, i, o, u, in uppercase or lowercase).",
        "text = ''.join(c for c in text if c.lower() not in 'aeiou')",
        ("text = ''.join(c for c in text if c not in 'aeiou')",),
    ),
    Rule(
        "Swap uppercase and lowercase letters.",
        "text = text.swapcase()",
        ("text = text.upper()",),
    ),
    Rule(
        "Replace every run of the same character with a single one.",
        "text = ''.join(c for i, c in enumerate(text) if i == 0 or text[i - 1] != c)",
        ("text = ''.join(dict.fromkeys(text))",),
    ),
    Rule(
        "Shift every lowercase letter a to z forward by $n positions in the alphabet, wrapping around after z.",
        "text = ''.join(chr((ord(c) - 97 + $n) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
        (
            "text = ''.join(chr((ord(c) - 97 - $n) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
            "text = ''.join(chr(ord(c) + $n) if 'a' <= c <= 'z' else c for c in text)",
        ),
        {"n": integer(1, 25)},
    ),
    Rule("Reverse the text.", "text = text[::-1]"),
    Rule(
        "Remove everything except letters and digits.",
        "text = ''.join(c for c in text if c.isalnum())",
        ("text = ''.join(c for c in text if c.isalpha())", "text = text.replace(' ', '')"),
    ),
    Rule(
        "Replace each digit with that many copies of $c (so 0 disappears).",
        "text = ''.join($c * int(c) if c.isdigit() else c for c in text)",
        ("text = ''.join($c if c.isdigit() else c for c in text)",),
        {"c": choice("*", "o", "+", "~")},
        once=True,
    ),
    Rule(
        "Swap the characters of every pair (first with second, third with fourth, and so on); an unpaired last "
        "character stays.",
        "text = ''.join(text[i:i + 2][::-1] for i in range(0, len(text), 2))",
        ("text = ''.join(text[i + 1] + text[i] for i in range(0, len(text) - 1, 2))",),
    ),
    Rule(
        "Insert $c after every $n characters, but not at the end.",
        "text = $c.join(text[i:i + $n] for i in range(0, len(text), $n))",
        ("text = ''.join(text[i:i + $n] + $c for i in range(0, len(text), $n))",),
        {"c": choice("|", "/", "-", " "), "n": integer(2, 5)},
    ),
    Rule(
        "Split the text at every $c.",
        "words = text.split($c)",
        ("words = [word for word in text.split($c) if word]",),
        {"c": choice("a", "e", "-", ".", "o")},
        gives="words",
    ),
)
ENDS_OF_WORDS = (
    Rule("the list of words.", "return words"),
    Rule(
        "the words joined into one string with $s between them.",
        "return $s.join(words)",
        slots={"s": choice(" ", ",", "; ", "")},
    ),
    Rule(
        "the longest word (the first in a tie), or an empty string if there is none.",
        "return max(words, key=len) if words else ''",
        ("return max(words, key=lambda word: (len(word), word)) if words else ''",),
    ),
    Rule(
        "the number of distinct words, ignoring case.",
        "return len({word.lower() for word in words})",
        ("return len(set(words))", "return len(words)"),
    ),
    Rule(
        "a dictionary from each length that occurs to the list of words of that length, in their original order.",
        "table = {}\nfor word in words:\n    table.setdefault(len(word), []).append(word)\nreturn table",
        ("table = {}\nfor word in words:\n    table[len(word)] = [word]\nreturn table",),
    ),
    Rule(
        "a list of tuples (word, count), most frequent first, with ties in alphabetical order.",
        "return sorted(((word, words.count(word)) for word in set(words)), key=lambda pair: (-pair[1], pair[0]))",
        ("return sorted(((word, words.count(word)) for word in set(words)), key=lambda pair: (pair[1], pair[0]))",),
    ),
)
ENDS_OF_TEXT = (
    Rule("the text.", "return text"),
    Rule(
        "the number of times the letter $c occurs, ignoring case.",
        "return text.lower().count($c)",
        ("return text.count($c)",),
        {"c": letter},
    ),
    Rule(
        "the length of the longest run of the same character, or 0 for an empty text.",
        "best = run = 0\nfor i, c in enumerate(text):\n    run = run + 1 if i and text[i - 1] == c else 1\n"
        "    best = max(best, run)\nreturn best",
        ("return max((text.count(c) for c in text), default=0)",),
    ),
    Rule(
        "a dictionary from each character that occurs more than once to the number of times it occurs.",
        "return {c: text.count(c) for c in text if text.count(c) > 1}",
        ("return {c: text.count(c) for c in text}",),
    ),
    Rule(
        "the first character that occurs only once, or an empty string if there is none.",
        "return next((c for c in text if text.count(c) == 1), '')",
        ("return next((c for c in reversed(text) if text.count(c) == 1), '')", "return text[:1]"),
    ),
    Rule(
        "a tuple of three numbers: how many letters, digits and other characters there are.",
        "a, d = sum(c.isalpha() for c in text), sum(c.isdigit() for c in text)\nreturn a, d, len(text) - a - d",
        ("a, d = sum(c.isalpha() for c in text), sum(c.isdigit() for c in text)\nreturn a, d, len(text)",),
    ),
)


FAMILY = ProgramFamily(
    "strings",
    FRAMES,
    typed("words", WORDS) + typed("text", TEXT),
    typed("words", ENDS_OF_WORDS) + typed("text", ENDS_OF_TEXT),
    names=("rewrite", "edit_text", "tidy", "transform", "arrange"),
)
