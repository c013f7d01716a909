import pytest

from inkwell import Template, TemplateError, render


class Person:
    def __init__(self, name):
        self.name = name
        self._secret = "hidden"


def test_text_stays():
    assert render("no { braces } here") == "no { braces } here"
    assert render("") == ""


def test_value():
    assert render("Hello {{ name }}!", name="Ada") == "Hello Ada!"
    assert render("{{a}}{{b}}", a=1, b=2) == "12"


def test_a_name_that_is_missing_is_empty():
    assert render("[{{ nobody }}]") == "[]"
    assert render("[{{ nobody.name }}]") == "[]"


def test_zero_and_false_are_written():
    assert render("{{ a }} {{ b }}", a=0, b=False) == "0 False"


def test_dots_reach_keys_items_and_attributes():
    assert render("{{ d.key }}", d={"key": "v"}) == "v"
    assert render("{{ l.1 }}", l=["a", "b"]) == "b"
    assert render("{{ p.name }}", p=Person("Bo")) == "Bo"
    assert render("{{ d.list.0.x }}", d={"list": [{"x": 3}]}) == "3"


def test_items_beyond_the_end_are_empty():
    assert render("[{{ l.2 }}]", l=["a", "b"]) == "[]"


def test_private_attributes_are_not_reached():
    assert render("[{{ p._secret }}]", p=Person("Bo")) == "[]"


def test_literals():
    assert render("{{ 'text' }} {{ \"more\" }} {{ 12 }} {{ -1.5 }} {{ true }}") == "text more 12 -1.5 True"


def test_none_is_empty():
    assert render("[{{ none }}]") == "[]"


def test_comments_vanish():
    assert render("a{# not {{ this }} #}b") == "ab"


def test_dashes_strip_space():
    assert render("a  {{- x -}}  b", x=1) == "a1b"
    assert render("a  {{- x }}  b", x=1) == "a1  b"
    assert render("a {#- note -#}\n b") == "ab"


def test_set():
    assert render("{% set x = 3 %}{{ x }}") == "3"
    assert render("{% set who = name | upper %}{{ who }}", name="ada") == "ADA"


def test_the_caller_keeps_its_values():
    template = Template("{% set x = 3 %}{{ x }}{{ y }}")
    values = {"y": 1}
    assert template.render(**values) == "31"
    assert values == {"y": 1}


def test_autoescape():
    template = Template("{{ text }} {{ text | raw }}", autoescape=True)
    assert template.render(text="<a & 'b'>") == "&lt;a &amp; &#39;b&#39;&gt; <a & 'b'>"


def test_without_autoescape():
    assert render("{{ text }}", text="<a>") == "<a>"


@pytest.mark.parametrize(
    ("source", "line", "said"),
    [
        ("{{ a", 1, "never closed"),
        ("x\n{% if a %}", 2, "if is never ended"),
        ("\n\n{% for a in b %}x", 3, "for is never ended"),
        ("{{ a | nothing }}", 1, "no filter 'nothing'"),
        ("{{ }}", 1, "empty"),
        ("{% dance %}", 1, "unknown tag 'dance'"),
        ("a\n{{ x }}\n{% set y %}", 3, "set NAME"),
        ("{% for x %}{% endfor %}", 1, "for NAME"),
    ],
)
def test_errors_name_the_line(source, line, said):
    with pytest.raises(TemplateError, match=said) as error:
        render(source)
    assert error.value.line == line


def test_lines_count_on_after_a_tag_of_several_lines():
    with pytest.raises(TemplateError) as error:
        render("{#\n\n#}\n{% dance %}")
    assert error.value.line == 4


def test_cannot_read():
    with pytest.raises(TemplateError, match="cannot read"):
        render("{{ a b }}")
