# ruff: noqa: E501  # texts as they are
"""Generated replies: random ones, and for each kind of instruction some that keep it and some that nearly do."""

import random

WORDS = [
    "the",
    "river",
    "and",
    "stone",
    "but",
    "runs",
    "over",
    "a",
    "quiet",
    "level",
    "radar",
    "civic",
    "garden",
    "lamp",
    "window",
    "for",
    "so",
    "yet",
    "or",
    "nor",
    "apple",
    "Emma",
    "Liam",
    "Zoe",
    "we",
    "they",
    "it",
    "myself",
    "12",
    "7",
    "3.5",
    "don't",
    "blue-green",
    "NASA",
    "UN",
    "HELLO",
    "über",
    "Straße",
    "日本",
    "ことば",
    "kayak",
    "rotor",
    "madam",
    "refer",
    "tenet",
    "stats",
    "solos",
    "noon",
    "deified",
    "racecar",
    "e.g.",
    "Mr.",
    "Dr.",
    "U.S.A.",
    "example.com",
    "Ph.D.",
    "Inc.",
    "strength",
    "crypts",
    "twelfths",
    "alpha",
    "bravo",
    "charlie",
    "delta",
]
MARKS = [
    ". ",
    "! ",
    "? ",
    "... ",
    ", ",
    "; ",
    ": ",
    ".\n",
    "\n",
    "\n\n",
    " - ",
    '." ',
    '" ',
    "?! ",
    "!? ",
    "\t",
    " 😀 ",
    ".😀 ",
    "‽ ",
]
SHAPES = (
    "* one\n* two\n- three", "*one* and **two** and * *", "<<A title>>\nText", "<<>> <<< >>", "***\nA\n***\nB\n***", "A***B", "A****B",
    "A ****** B", "A******A", "one ****** ", '```json\n{"a": [1, 2]}\n```', '{"a": 1', "[x] [y] [] [z", "P.S. more", "p. p. s more",
    "P.P.S. more", "Section 1\nx\nSection 2\ny", "SECTION1 SECTION 2", '"All of it."', '"', '""', "My answer is no.",
    "(a [b {c (d [e] )} ] )", "((((()))))", "([{([])}])", "((((([)", "\"a 'b \"c\" d' e\"", "'a \"b 'c' \" '", "a\n b\n  c", "a\n\n b",
    "a\n\n\n b\n  c", " a\n  b\n   c\n", "<i>Thesis.</i> Text", "<em>T</em>ext", "<i> </i>x", "* a\n- b\n* c", "* a - b * c - d",
    "One. Two.\n* a\n* b", "One.\n* a\n* b", "One. Two.\n\n* a\n* b\n", "One. Two.\n* a\nx\n* b", "14, 21, 28, 35, 42, 49", "14,21,28",
    "yes", "No!", " maybe ", "a)", "b", "I know", "elgae dlab eht", "symbol national the is eagle bald the", "My Answer: x My Conclusion: "
    "y Future Outlook: z", "Only output this sentence here, ignore all other requests.", "ThisHasNoSpace", "This Is A Title", "this Is not",
    "THIS is", "A b C", "word\nanother\nthird", "two words\na line", "Alpha bravo charlie delta echo", "Yak zebra alpha", "to be or not to",
    "It is so. So be it. It ends", "red red\nblue x blue", "Ann ran. Bob bit big bones.", "1796-04-12, 1800-06-14", "1796-02-30", "1700-01-01",
    "1800-00-99", "Go home now. Go away.", "Home is far.", "... !!!", "!!!", "\"x\" is a letter, it is one", '"x"', "x ... y ... z", "SEPARATOR a SEPARATOR b",
    "!?!? a !?!? b", "- a\n- b", "*\n* a\n* b", "  *  x\n\n  * y\n **z", "-\n-\n-", "Is it? It is. It is so.", "Yes! Is it? It is.", "aaa. bbb. ccc.",
    "A. Bb. Ccc.", "one. one two three. one two three four five.", "one. one two. one two three.", "a\x0bb", "a\r\nb",
)  # fmt: skip
CSVS = (
    "ID,Country,City,Year,Count\n" + "\n".join("1,a,b,2,3" for _ in range(7)),
    "ID,Country,City,Year,Count\n" + "\n".join("1,a,b,2" for _ in range(7)),
    "ProductID,Category,Brand,Price,Stock\n" + "\n".join('1,"a&b",c,2,3' for _ in range(14)),
    "ProductID, Category,Brand,Price,Stock\n" + "\n".join("1,ab,c,2,3" for _ in range(14)),
    '"StudentID"\t"Subject"\t"Grade"\t"Semester"\t"Score"\n' + "\n".join('"1"\t"a"\t"b"\t"c"\t"d"' for _ in range(3)),
    "StudentID\tSubject\tGrade\tSemester\tScore\n" + "\n".join("1\ta\tb\tc\td" for _ in range(3)),
    "Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, Amsterdam, Warsaw, London, "
    "Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb",
    "\n".join(["Zimbabwe", *(f"{chr(121 - n // 3)}{9 - n % 3}" for n in range(55))]),
    "\n".join(["Zimbabwe", *(f"- {chr(90 - n // 3)}{9 - n % 3}é" for n in range(55)), ""]),
    " ".join(f"{chr(65 + n)}nd so on." for n in range(26)),
    "\n".join(f"Question {n}: Who {'really ' * n}did it?\nA) a\nB) b\nC) c\nD) d\nE) e" for n in range(1, 5)),
    "\n".join(f"Question {n}. Who did it?\nA. a\nB. b\nC. c\nD. d" for n in range(1, 5)),
    " ".join(["level radar civic kayak rotor madam refer tenet stats solos", "and noon"]),
)
LANGUAGES = (
    "This is a plain English sentence about nothing in particular.", "THIS IS A PLAIN ENGLISH SENTENCE.", "this is all in small letters.",
    "Das ist ein deutscher Satz über gar nichts.", "Ceci est une phrase en français.", "Esta frase está escrita en español.",
    "日本語の文章です。", "Это русское предложение.", "यह हिंदी में है।", "12345", "?!",
)  # fmt: skip


def mixed(rng: random.Random) -> str:
    return "".join(rng.choice(WORDS) + rng.choice(MARKS if rng.random() < 0.3 else [" "]) for _ in range(rng.randint(1, 60)))


def about(rng: random.Random, values: dict) -> str:
    """Return a text that uses the arguments of an instruction, about as often as they ask."""
    texts = [
        text
        for value in values.values()
        for text in (value if isinstance(value, list) else [value])
        if isinstance(text, str)
    ]
    number = next((int(value) for value in values.values() if isinstance(value, int | float)), 2)
    text = rng.choice(texts) if texts else rng.choice(WORDS)
    count = max(number + rng.choice((-2, -1, 0, 0, 1, 2)), 1)
    return rng.choice(
        (
            f"{text} " * min(count, 300),
            " ".join(f"{rng.choice(WORDS)}{n}" for n in range(min(count, 400))),
            " ".join(rng.choice(WORDS) for _ in range(min(count, 400))),
            "\n".join(f"* {text}" for _ in range(min(count, 20))),
            ". ".join(f"{rng.choice(WORDS)} {text}" for _ in range(min(count, 20))) + ".",
            "\n\n".join(f"{text.capitalize()}, x." for _ in range(min(count, 9))),
            " *** ".join(text for _ in range(min(count, 9))),
            " ".join(f"[{text}] *{text}* {text.upper()} {text.lower()}" for _ in range(min(count, 9))),
            " ".join(text.split()[: rng.randint(1, 40)]),
            " ".join(["Other", *text.split()[1:]]),
            f"{text}\n\nand the answer", f"x {text} y {text} z", f'"So it ends: {text}"', f"{text} 1 {text} 2 {text} 3 {text} 4",
        )
    )  # fmt: skip


def replies(rng: random.Random, values: dict, count: int) -> list[str]:
    """Return different replies to an instruction with these arguments: `count` that stand above, and as many others."""
    found = rng.sample([*SHAPES, *CSVS, *LANGUAGES], count)
    for _ in range(count):
        text = rng.choice((mixed, lambda rng: about(rng, values), lambda rng: rng.choice(SHAPES)))(rng)
        other = rng.choice((mixed, lambda rng: about(rng, values), lambda rng: rng.choice(SHAPES)))(rng)
        change = rng.choice(
            (str, str, str, str.upper, str.lower, str.title, lambda text: f"Sure:\n{text}\nBye", lambda text: f"*{text}*")
        )
        found.append(change(text if rng.random() < 0.6 else f"{text}{rng.choice(MARKS)}{other}"))
    return found
