"""Strings: words and characters, filtered, ordered, replaced and counted."""

from agentgym.envs.code.families.family import Family, Frame, Plan, Rng, Rule, typed
from agentgym.envs.code.families.slots import choice, integer, letter, one, words

CHARACTERS = "aaabbcdeeefgiilmnoorstuxyzABCEHLMT0123345789..,,--!? "


def _sentence(rng: Rng, difficulty: int, _: Plan) -> list[object]:
    return [" ".join(words(rng, difficulty))]


def _text(rng: Rng, difficulty: int, _: Plan) -> list[object]:
    if rng.random() < 0.1:
        return ["" if rng.random() < 0.4 else one("aZ7.", rng)]
    drawn: list[str] = []
    for _number in range(int(rng.integers(3, 16 + 4 * difficulty))):
        drawn.append(drawn[-1] if drawn and rng.random() < 0.25 else one(CHARACTERS, rng))
    return ["".join(drawn)]


FRAMES = (
    Frame(
        "`text` is a string of lower-case words with one space between them; it may be empty.",
        "text",
        _sentence,
        "words = text.split()",
        gives="words",
        asks="Begin with the list of its words and take these steps, in this order:",
    ),
    Frame(
        "`words` is a list of words in small letters and capitals.",
        "words",
        lambda rng, difficulty, _: [words(rng, difficulty, mixed=True)],
        "words = list(words)",
        gives="words",
    ),
    Frame("`text` is a string of letters, digits, spaces and punctuation; it may be empty.", "text", _text, gives="text"),
)
WORDS = (
    Rule(
        "Drop the words of fewer than $n characters.",
        "words = [word for word in words if len(word) >= $n]",
        ("words = [word for word in words if len(word) > $n]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Drop the words of more than $n characters.",
        "words = [word for word in words if len(word) <= $n]",
        ("words = [word for word in words if len(word) < $n]",),
        {"n": integer(4, 7)},
    ),
    Rule(
        "Drop the words that hold the letter $c, whether small or capital.",
        "words = [word for word in words if $c not in word.lower()]",
        ("words = [word for word in words if not word.startswith($c)]", "words = [word for word in words if $c in word]"),
        {"c": choice(*"aeiost")},
    ),
    Rule("Write every word backwards.", "words = [word[::-1] for word in words]", ("words = words[::-1]",)),
    Rule("Put the words in reverse order.", "words = words[::-1]", ("words = [word[::-1] for word in words]",)),
    Rule(
        "Sort the words by length, the shortest first; words of one length in alphabetical order (as Python compares them).",
        "words = sorted(words, key=lambda word: (len(word), word))",
        ("words = sorted(words, key=len)", "words = sorted(words)"),
    ),
    Rule(
        "Sort the words by their last character and leave words with the same one in the order they were in; "
        "capitals count as small letters.",
        "words = sorted(words, key=lambda word: word[-1:].lower())",
        ("words = sorted(words, key=lambda word: (word[-1:].lower(), word))", "words = sorted(words)"),
    ),
    Rule(
        "Keep only the first of words that are alike.",
        "words = list(dict.fromkeys(words))",
        ("words = sorted(set(words))", "words = [word for word in words if words.count(word) == 1]"),
    ),
    Rule(
        "Move the first $n words to the end; where there are fewer, leave all as they are.",
        "words = words[$n:] + words[:$n] if len(words) >= $n else words",
        ("words = words[-$n:] + words[:-$n] if len(words) >= $n else words", "words = words[$n:]"),
        {"n": integer(1, 3, 1)},
    ),
    Rule(
        "Keep one word in $n, beginning with the first.",
        "words = words[::$n]",
        ("words = words[$n - 1::$n]",),
        {"n": integer(2, 3)},
    ),
    Rule(
        "Replace each word by itself followed by $s and its length.",
        "words = [word + $s + str(len(word)) for word in words]",
        ("words = [str(len(word)) + $s + word for word in words]",),
        {"s": choice(":", "-", "=", "#")},
    ),
    Rule(
        "Cut every word after its first $n characters.",
        "words = [word[:$n] for word in words]",
        ("words = [word[-$n:] for word in words]",),
        {"n": integer(2, 5)},
    ),
    Rule(
        "Join the words with $s between them.",
        "text = $s.join(words)",
        ("text = ''.join(word + $s for word in words)",),
        {"s": choice(" ", "-", ", ", "_", "+")},
        gives="text",
    ),
)
TEXT = (
    Rule(
        "Remove every vowel (a, e, i, o, u, small or capital).",
        "text = ''.join(c for c in text if c.lower() not in 'aeiou')",
        ("text = ''.join(c for c in text if c not in 'aeiou')",),
    ),
    Rule(
        "Turn capitals into small letters and small letters into capitals.",
        "text = text.swapcase()",
        ("text = text.upper()",),
    ),
    Rule(
        "Replace every run of one character by a single one.",
        "text = ''.join(c for i, c in enumerate(text) if i == 0 or text[i - 1] != c)",
        ("text = ''.join(dict.fromkeys(text))",),
    ),
    Rule(
        "Move every small letter a to z on by $n places in the alphabet, beginning again after z.",
        "text = ''.join(chr((ord(c) - 97 + $n) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
        (
            "text = ''.join(chr((ord(c) - 97 - $n) % 26 + 97) if 'a' <= c <= 'z' else c for c in text)",
            "text = ''.join(chr(ord(c) + $n) if 'a' <= c <= 'z' else c for c in text)",
        ),
        {"n": integer(1, 25)},
    ),
    Rule("Write the text backwards.", "text = text[::-1]"),
    Rule(
        "Remove everything but letters and digits.",
        "text = ''.join(c for c in text if c.isalnum())",
        ("text = ''.join(c for c in text if c.isalpha())", "text = text.replace(' ', '')"),
    ),
    Rule(
        "Replace each digit by that many copies of $c (so 0 disappears).",
        "text = ''.join($c * int(c) if c.isdigit() else c for c in text)",
        ("text = ''.join($c if c.isdigit() else c for c in text)",),
        {"c": choice("*", "o", "+", "~")},
        once=True,
    ),
    Rule(
        "Swap the characters of every pair (first with second, third with fourth and so on); one left over stays.",
        "text = ''.join(text[i:i + 2][::-1] for i in range(0, len(text), 2))",
        ("text = ''.join(text[i + 1] + text[i] for i in range(0, len(text) - 1, 2))",),
    ),
    Rule(
        "Put $c after every $n characters, but not at the end.",
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
    Rule("the words in one string, with $s between them.", "return $s.join(words)", slots={"s": choice(" ", ",", "; ", "")}),
    Rule(
        "the longest word (the first of them where several are as long), or an empty string where there is none.",
        "return max(words, key=len) if words else ''",
        ("return max(words, key=lambda word: (len(word), word)) if words else ''",),
    ),
    Rule(
        "the number of different words, where capitals count as small letters.",
        "return len({word.lower() for word in words})",
        ("return len(set(words))", "return len(words)"),
    ),
    Rule(
        "a dictionary from each length to the list of words of that length, in their order.",
        "table = {}\nfor word in words:\n    table.setdefault(len(word), []).append(word)\nreturn table",
        ("table = {}\nfor word in words:\n    table[len(word)] = [word]\nreturn table",),
    ),
    Rule(
        "a list of pairs (word, how often it occurs) as tuples, the most frequent first, then alphabetically.",
        "return sorted(((word, words.count(word)) for word in set(words)), key=lambda pair: (-pair[1], pair[0]))",
        ("return sorted(((word, words.count(word)) for word in set(words)), key=lambda pair: (pair[1], pair[0]))",),
    ),
)
ENDS_OF_TEXT = (
    Rule("the text.", "return text"),
    Rule(
        "how often the letter $c occurs, small or capital.",
        "return text.lower().count($c)",
        ("return text.count($c)",),
        {"c": letter},
    ),
    Rule(
        "the length of the longest run of one character, 0 for an empty text.",
        "best = run = 0\nfor i, c in enumerate(text):\n    run = run + 1 if i and text[i - 1] == c else 1\n"
        "    best = max(best, run)\nreturn best",
        ("return max((text.count(c) for c in text), default=0)",),
    ),
    Rule(
        "a dictionary from each character that occurs more than once to how often it does.",
        "return {c: text.count(c) for c in text if text.count(c) > 1}",
        ("return {c: text.count(c) for c in text}",),
    ),
    Rule(
        "the first character that occurs once only, or an empty string where there is none.",
        "return next((c for c in text if text.count(c) == 1), '')",
        ("return next((c for c in reversed(text) if text.count(c) == 1), '')", "return text[:1]"),
    ),
    Rule(
        "a tuple of three numbers: how many letters, how many digits, how many other characters there are.",
        "a, d = sum(c.isalpha() for c in text), sum(c.isdigit() for c in text)\nreturn a, d, len(text) - a - d",
        ("a, d = sum(c.isalpha() for c in text), sum(c.isdigit() for c in text)\nreturn a, d, len(text)",),
    ),
)


FAMILY = Family(
    "strings",
    FRAMES,
    typed("words", WORDS) + typed("text", TEXT),
    typed("words", ENDS_OF_WORDS) + typed("text", ENDS_OF_TEXT),
    names=("rewrite", "edit_text", "tidy", "transform", "arrange"),
)
