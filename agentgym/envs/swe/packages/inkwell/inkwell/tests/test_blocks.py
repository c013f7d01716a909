import pytest

from inkwell import TemplateError, render


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a", True),
        ("nothing", False),
        ("not a", False),
        ("not nothing", True),
        ("a == 3", True),
        ("a != 3", False),
        ("a < 3", False),
        ("a <= 3", True),
        ("a > 2", True),
        ("a >= 4", False),
        ("'x' in word", True),
        ("not 'x' in word", False),
        ("a and nothing", False),
        ("a or nothing", True),
        ("nothing and a or a", True),
        ("a or nothing and nothing", True),
        ("a == 2 or word == 'axe'", True),
        ("a==3 and word=='axe'", True),
    ],
)
def test_conditions(condition, expected):
    assert render("{% if " + condition + " %}yes{% else %}no{% endif %}", a=3, word="axe") == ("yes" if expected else "no")


def test_a_condition_that_cannot_be_read():
    with pytest.raises(TemplateError, match="condition 'a b'"):
        render("{% if a b %}{% endif %}")


SIZES = "{% if n > 9 %}big{% elif n > 4 %}middle{% elif n > 0 %}small{% else %}none{% endif %}"


@pytest.mark.parametrize(("count", "expected"), [(12, "big"), (9, "middle"), (4, "small"), (0, "none")])
def test_elif(count, expected):
    assert render(SIZES, n=count) == expected


def test_if_without_else():
    assert render("[{% if x %}yes{% endif %}]", x=0) == "[]"


def test_nested_conditions():
    source = "{% if a %}{% if b %}ab{% else %}a{% endif %}{% else %}none{% endif %}"
    assert render(source, a=1, b=1) == "ab"
    assert render(source, a=1) == "a"
    assert render(source, b=1) == "none"


def test_for():
    assert render("{% for x in xs %}<{{ x }}>{% endfor %}", xs=[1, 2]) == "<1><2>"


def test_for_with_several_names():
    assert render("{% for k, v in d %}{{ k }}={{ v }};{% endfor %}", d=[("a", 1), ("b", 2)]) == "a=1;b=2;"


def test_for_over_nothing():
    source = "{% for x in xs %}{{ x }}{% else %}empty{% endfor %}"
    assert render(source, xs=[]) == "empty"
    assert render(source) == "empty"
    assert render(source, xs=[7]) == "7"


def test_loop_counts():
    source = "{% for x in xs %}{{ loop.index }}/{{ loop.length }}{% if not loop.last %}, {% endif %}{% endfor %}"
    assert render(source, xs="abc") == "1/3, 2/3, 3/3"


def test_loop_first():
    source = "{% for x in xs %}{% if loop.first %}*{% endif %}{{ x }}{% endfor %}"
    assert render(source, xs=[1, 2]) == "*12"


def test_nested_loops():
    source = "{% for row in rows %}{% for x in row %}{{ x }}{% endfor %}|{% endfor %}"
    assert render(source, rows=[[1, 2], [3]]) == "12|3|"


def test_loop_is_that_of_the_inner_loop_only_inside():
    source = "{% for row in rows %}{% for x in row %}{{ loop.index }}{% endfor %}:{{ loop.index }} {% endfor %}"
    assert render(source, rows=["ab", "c"]) == "12:1 1:2 "


def test_names_of_a_loop_end_with_it():
    assert render("{% for x in xs %}{{ x }}{% endfor %}[{{ x }}]", xs=[1]) == "1[]"


def test_what_is_set_in_a_loop_stays_in_it():
    assert render("{% set t = 0 %}{% for x in xs %}{% set t = x %}{{ t }}{% endfor %}{{ t }}", xs=[1, 2]) == "120"


def test_for_over_filtered_values():
    assert render("{% for x in xs | sort | reverse %}{{ x }}{% endfor %}", xs=[2, 3, 1]) == "321"
