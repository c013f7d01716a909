# ruff: noqa: E501  # a case a line
"""For each instruction of IFEval and IFBench: arguments, a reply that keeps it, and one that does not."""

COUNTRIES = "\n".join(["Zimbabwe", *(f"{chr(89 - n // 3)}{9 - n % 3}" for n in range(55))])
CAPITALS = (
    "Reykjavik, Helsinki, Oslo, Tallinn, Stockholm, Riga, Moscow, Copenhagen, Vilnius, Minsk, Dublin, Berlin, Amsterdam, Warsaw, "
    "London, Brussels, Prague, Luxembourg, Paris, Vienna, Bratislava, Budapest, Vaduz, Chișinău, Bern, Ljubljana, Zagreb"
)
QUESTIONS = "\n".join(f"Question {n}: Who {'really ' * n}did it?\nA) a\nB) b\nC) c\nD) d\nE) e" for n in range(1, 5))
CITIES = "ID,Country,City,Year,Count\n" + "\n".join("1,a,b,2,3" for _ in range(7))
PRODUCTS = "ProductID,Category,Brand,Price,Stock\n" + "\n".join('1,"a&b",c,2,3' for _ in range(14))
STUDENTS = "\n".join(
    "\t".join(f'"{name}"' for name in ["StudentID", "Subject", "Grade", "Semester", "Score"]) for _ in range(4)
)
KEYWORDS = {f"keyword{n}": word for n, word in enumerate(["one", "two", "three", "five", "seven"], 1)}
FIVE = "one two two three three three " + "five " * 5 + "seven " * 7
PALINDROMES = "level radar civic kayak rotor madam refer tenet stats solos"
TALE = " ".join(f"{chr(65 + n)}nd so on." for n in range(26))
ENGLISH = "This is a plain English sentence about nothing in particular."

IFEVAL = [
    ("keywords:existence", {"keywords": ["stone", "U.S.A"]}, "A Stone of the U.S.A", "A stone"),
    ("keywords:frequency", {"keyword": "an", "frequency": 3, "relation": "at least"}, "An ant can", "An ant"),
    ("keywords:forbidden_words", {"forbidden_words": ["man", "ox"]}, "A woman and oxen", "No Man"),
    ("keywords:letter_frequency", {"letter": "E", "let_frequency": 2, "let_relation": "less than"}, "One", "Eden"),
    ("language:response_language", {"language": "de"}, "Das ist ein deutscher Satz über gar nichts.", ENGLISH),
    ("length_constraints:number_sentences", {"num_sentences": 2, "relation": "at least"}, "Mr. X ran. He fell.", "Mr. X ran."),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "***\nA\n***\nB ***", "A\n***\n***\nB"),
    ("length_constraints:number_words", {"num_words": 3, "relation": "less than"}, "two-words", "don't go"),
    ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "End"},
     "A\n\n'\"End, then", "A\n\nb\n\nend"),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[a]] []", "[a\n] [b]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye\np. s. more", "PS: more"),
    ("detectable_content:postscript", {"postscript_marker": "P.P.S"}, "Bye p.p. s", "P.S. more"),
    ("detectable_content:postscript", {"postscript_marker": "Note"}, "a note", "none"),
    ("detectable_format:number_bullet_lists", {"num_bullets": 3}, "* a\n\n  - b\n**c\n*\n* d", "* a\n* b\n* c\n- d"),
    ("detectable_format:constrained_response", {}, "Well. My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* *b*", "*a* * * ** **"),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 1}, "**a**", "*a\nb*"),
    ("detectable_format:multiple_sections", {"section_spliter": "SECTION", "num_sections": 2}, "SECTION 1 SECTION2", "SECTION A"),
    ("detectable_format:json_format", {}, '```json\n{"a": [NaN]}\n```', "{'a': 1}"),
    ("detectable_format:title", {}, "<<<>> x>>", "<< >> <<\n>>"),
    ("combination:two_responses", {}, "******a******b", "a ****** a"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say It "}, " say it now", "I say it"),
    ("startend:end_checker", {"end_phrase": "So it goes."}, '"… so it goes."', "So it goes"),
    ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}, "NASA-A I", "Nasa I"),
    ("change_case:english_capital", {}, ENGLISH.upper(), ENGLISH),
    ("change_case:english_lowercase", {}, ENGLISH.lower(), "das ist ein deutscher satz über gar nichts."),
    ("punctuation:no_comma", {}, "None; at all", "One, two"),
    ("startend:quotation", {}, ' "a" ', '"'),
]  # fmt: skip
IFBENCH = [
    ("count:word_count_range", {"min_words": 2.0, "max_words": 3.0}, "a-b", "a"),
    ("count:unique_word_count", {"N": 2}, "A, b", "A a. (a)"),
    ("count:conjunctions", {"small_n": 2}, "and (But)", "and or-else"),
    ("count:person_names", {"N": 2}, "Emma and Leonard", "emma Leo"),
    ("count:numbers", {"N": 2}, "3.5 or 1,000", "3 and 4 and 5"),
    ("count:pronouns", {"N": 3}, "She/her, it's its", "This one"),
    ("count:punctuation", {}, "a, b; c: d! e? f. g?!", "a, b; c: d! f. g?!"),
    ("count:words_japanese", {"N": 2}, "a 本 b 12", "a b"),
    ("count:keywords_multiple", KEYWORDS, FIVE, FIVE + "one"),
    ("ratio:stop_words", {"percentage": 50}, "the stone", "the and stone"),
    ("ratio:sentence_type", {}, "A is. B is. C?", "A is. C?"),
    ("ratio:sentence_balance", {}, "A is. B? C!", "A is. B?"),
    ("ratio:sentence_words", {}, "aaa. aaa. ccc.", "aaa. bbbb. ccc."),
    ("ratio:overlap", {"reference_text": "abcd", "percentage": 50}, "xabcdy", "abcd"),
    ("words:alphabet", {}, "Yak zoo, Apple", "a c"),
    ("words:vowel", {}, "a be in", "a be in\nso"),
    ("words:consonants", {}, "Strong hints", "Strong a"),
    ("words:palindrome", {}, PALINDROMES, PALINDROMES[6:]),
    ("words:prime_lengths", {}, "to be, you", "four"),
    ("words:start_verb", {}, "Go home", "Home is far"),
    ("words:repeats", {"small_n": 1}, "One two", "one One."),
    ("words:odd_even_syllables", {}, "Water is", "it is"),
    ("words:last_first", {}, "It is so. So be it. It ends", "It is. So be it."),
    ("words:paragraph_last_first", {}, "Red is red.\n...\nX", "red is blue"),
    ("words:no_consecutive", {}, "A b a", "Big bones"),
    ("words:keywords_specific_position", {"keyword": "it", "n": 2, "m": 3}, "One. Two is it.", "One. Is it."),
    ("words:words_position", {"keyword": "x"}, "a x b x c", "x a b x c"),
    ("sentence:alliteration_increment", {}, "One two. Red rum. All are able.", "Red rum. Big bad."),
    ("sentence:keyword", {"word": "Ox", "N": 2}, "One. Foxes.", "Ox. One."),
    ("sentence:increment", {"small_n": 1}, "One. Now two. Then it ended.", "One. Now two. Two more."),
    ("format:parentheses", {}, "(a [b {c (d [e] )} ] )", "((((a)))) ((((("),
    ("format:quotes", {}, "\"a 'b \"c\" d' e\"", "\"a 'b' c\""),
    ("format:options", {"options": "yes/no/maybe"}, " Maybe. ", "yes, of course"),
    ("format:options", {"options": "I know or I don't know"}, "i know", "know"),
    ("format:options", {"options": "a), b), c), d)"}, "b)", "b"),
    ("format:newline", {}, "One,\n\ntwo", "One two\nthree"),
    ("format:emoji", {}, "So 😀. Well! 😀", "So. Well 😀"),
    ("format:line_indent", {}, "a\n\n b\n  c", "a\n\n\n b"),
    ("format:quote_unquote", {}, '"x" is a letter', 'a letter: "x".'),
    ("format:list", {"sep": "..."}, "... a ... b", "... a"),
    ("format:thesis", {}, "<em>It</em> is", "<i> </i> is"),
    ("format:sub-bullets", {}, "* a\n- b\n* c-d", "* a\n* b - c"),
    ("format:no_bullets_bullets", {}, "One. Two.\n\n* a\n* b", "One. Two.\n* a\n* b\n"),
    ("format:title_case", {}, "This Is A b", "This is"),
    ("format:output_template", {}, "My Answer: My Conclusion: Future Outlook:", "My answer: My Conclusion: Future Outlook:"),
    ("format:no_whitespace", {}, "OneWord", "two words"),
    ("repeat:repeat_change", {"prompt_to_repeat": "Say  it now"}, "Write it now", "Say  it now"),
    ("repeat:repeat_simple", {}, "Only output this sentence here, ignore all other requests. ", "No."),
    ("repeat:repeat_span", {"prompt_to_repeat": "Say it now then", "n_start": 1, "n_end": 3}, "IT now", "it now then"),
    ("custom:multiples", {}, "14,21, 28\n35 42 49", "14 21 28 35 42 49 56"),
    ("custom:mcq_count_length", {}, QUESTIONS, QUESTIONS.replace("E) e", "")),
    ("custom:reverse_newline", {}, COUNTRIES, COUNTRIES + "\nZ"),
    ("custom:word_reverse", {}, "Eagle bald the is it.", "The bald eagle."),
    ("custom:character_reverse", {}, "Elgae dlab", "bald eagle"),
    ("custom:sentence_alphabet", {}, TALE, TALE[9:]),
    ("custom:european_capitals_sort", {}, CAPITALS, CAPITALS.replace("Oslo, ", "")),
    ("custom:csv_city", {}, CITIES, CITIES + "\n1,2,3,4,5"),
    ("custom:csv_special_character", {}, PRODUCTS, PRODUCTS.replace("&", "")),
    ("custom:csv_quotes", {}, STUDENTS, STUDENTS.replace('"Score"', "Score")),
    ("custom:date_format_list", {}, "1796-04-12, 1800-00-99", "1796-02-30"),
]  # fmt: skip
