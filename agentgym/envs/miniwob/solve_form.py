"""Solvers of tasks with fields, lists, dates and sliders."""

import calendar
import json
import re

from agentgym.browser.observation import Element
from agentgym.core.actions import spell
from agentgym.envs.miniwob.page import Page, Solver, call, click, entered, fill, nth, submit

MONTHS: list[str] = list(calendar.month_name)[1:]


def choose_list(page: Page) -> str:
    option, field = page.match(r"Select (.*) from the list")[1], page.one("combobox")
    return submit(page) if field.fact("value") == option else call("select", id=field.id, option=option)


def _list(field: Element, key: str) -> list[str]:
    """Return the list of texts stored under `key` in a field's facts."""
    return json.JSONDecoder().raw_decode(field.facts.split(f"{key}=", 1)[1])[0]


def scroll_list(page: Page) -> str:
    field = page.one("listbox")
    options, selected = _list(field, "options"), _list(field, "value")
    text = page.match(r"Select (.*) from the scroll list")[1]
    selection = [o for o in options if re.search(rf"(^|, ){re.escape(o)}(, |$)", text)]
    wrong = [o for o in options if (o in selection) != (o in selected)]
    return call("select", id=field.id, option=wrong[0]) if wrong else submit(page)


def enter_text(page: Page) -> str:
    return entered(page, (page.one("textbox"), page.quoted()[0])) or submit(page)


def enter_text_2(page: Page) -> str:
    text = page.quoted()[0]
    expected = text.upper() if "upper case" in page.goal else text.lower()
    return entered(page, (page.one("textbox"), expected)) or submit(page)


def _secret(page: Page, field: Element, text: str) -> str | None:
    """Return the call that fills a masked field; None if it already contains as many characters as the text."""
    return None if len(field.fact("value")) == len(text) else fill(field, text)


def enter_password(page: Page) -> str:
    text, (first, second) = page.quoted()[0], page.all("textbox")[:2]
    return _secret(page, first, text) or _secret(page, second, text) or submit(page)


def login_user(page: Page) -> str:
    (user, password), fields = page.quoted()[:2], page.all("textbox")
    cancel = [e for e in page.elements if e.name in ("Cancel", "Close", "No", "X") and e.role == "button"]
    if cancel:  # a popup asks whether to leave the page
        return click(cancel[0])
    return entered(page, (fields[0], user)) or _secret(page, fields[1], password) or click(page.all("button")[-1])


def text_transform(page: Page) -> str:
    return entered(page, (page.one("textbox"), page.elements[0].name)) or submit(page)


def copy_paste(page: Page) -> str:
    fields = page.all("textbox")
    sources = [e for e in fields if e.has("multiline")]
    number = re.search(r"the (\d\w\w) text area", page.goal)
    source = sources[nth(number[1]) if number else 0]
    target = next(e for e in fields if not e.has("multiline"))
    return entered(page, (target, source.fact("value"))) or submit(page)


def find_word(page: Page) -> str:
    words = page.one("paragraph").name.split()
    word = re.sub(r"[^A-Za-z0-9]", "", words[nth(page.match(r"the (\w+) word")[1])])
    return entered(page, (page.one("textbox"), word)) or submit(page)


def scroll_text(page: Page) -> str:
    text, field = page.all("textbox")[:2]
    word = re.sub(r"[^A-Za-z0-9]", "", text.fact("value").split()[-1])
    return entered(page, (field, word)) or submit(page)


def _table(page: Page) -> dict[str, str]:
    cells = page.all("cell")
    return {key.name: value.name for key, value in zip(cells[::2], cells[1::2], strict=False)}


def read_table(page: Page) -> str:
    value = _table(page)[page.match(r"value of (.*) into")[1]]
    return entered(page, (page.one("textbox"), value)) or submit(page)


def read_table_2(page: Page) -> str:
    table = _table(page)
    keys = [e.name.rstrip(":") for e in page.elements if e.name.endswith(":") and e.name.rstrip(":") in table]
    values = [(field, table[key]) for key, field in zip(keys, page.all("textbox"), strict=False)]
    return entered(page, *values) or submit(page)


def arithmetic(page: Page) -> str:
    a, sign, b = re.findall(r"-?\d+|[x+\-*/]", page.elements[0].name)[:3]
    value = {"x": int(a) * int(b), "+": int(a) + int(b), "-": int(a) - int(b)}[sign]
    return entered(page, (page.one("textbox"), str(value))) or submit(page)


def algebra(page: Page) -> str:
    left, sign, right, _, total = page.elements[0].name.split()
    if sign == "+":
        value = int(total) - int(right if left == "x" else left)
    else:
        value = int(total) + int(right) if left == "x" else int(left) - int(total)
    return entered(page, (page.one("textbox"), str(value))) or submit(page)


def enter_date(page: Page) -> str:
    month, day, year = page.match(r"(\d+)/(\d+)/(\d+)").groups()
    return entered(page, (page.one("textbox"), f"{year}-{month:>02}-{day:>02}")) or submit(page)


def enter_time(page: Page) -> str:
    hour, minute, half = page.match(r"(\d+):(\d+) ([AP]M)").groups()
    time = f"{int(hour) % 12 + (12 if half == 'PM' else 0):02}:{minute}"
    return entered(page, (page.one("textbox"), time)) or submit(page)


def choose_date(page: Page) -> str:
    month, day, year = (int(part) for part in page.match(r"(\d+)/(\d+)/(\d+)").groups())
    field = page.one("textbox")
    if field.fact("value") == f"{month:02}/{day:02}/{year}":
        return submit(page)
    titles = [e.name for e in page.elements if e.name in MONTHS]
    if not titles:
        return click(field)
    current_month = MONTHS.index(titles[0]) + 1
    if current_month == month:
        return click(page.one("link", str(day)))
    return click(page.one(None, "Prev" if current_month > month else "Next"))


def use_spinner(page: Page) -> str:
    return entered(page, (page.one("spinbutton"), page.match(r"Select (-?\d+)")[1])) or submit(page)


def autocomplete(page: Page) -> str:
    parts = [*page.quoted(), ""]
    field = page.one("textbox")

    def right(text: str) -> bool:
        return text.startswith(parts[0]) and text.endswith(parts[1])

    if right(field.fact("value")) and field.fact("value") != parts[0]:
        return submit(page)
    items = [e for e in page.elements if e.role in ("menuitem", "option", "div") and right(e.name)]
    if items:
        return click(items[0])
    if field.fact("value") == parts[0]:  # the list was closed, and typing reopens it
        return fill(field, parts[0][:-1]) if field.has("focused") else click(field)
    return fill(field, parts[0])


def radio_and_text(page: Page) -> str:
    radio, text, position = page.match(r'the (\w+) radio button and enter the number "(.*)" into the (\w+) textbox').groups()
    button = page.all("radio")[nth(radio)]
    if not button.has("checked"):
        return click(button)
    return entered(page, (page.all("textbox")[nth(position)], text)) or submit(page)


def dropdown_and_button(page: Page) -> str:
    option, label = page.match(r'Choose (.*) from the dropdown, then click the button labeled "(.*)"').groups()
    if items := page.all("listitem", option):  # the list is open
        return click(items[0])
    return click(page.one("button", label) if page.one("combobox").fact("value") == option else page.one("b"))


def guess_number(page: Page) -> str:
    field, text = page.one("spinbutton"), " ".join(page.texts)
    higher, lower = re.search(r"higher than (\d+)", text), re.search(r"lower than (\d+)", text)
    guess = str(int(higher[1]) + 1 if higher else int(lower[1]) - 1 if lower else 5)
    return entered(page, (field, guess)) or submit(page)


def odd_or_even(page: Page) -> str:
    odds, evens = page.all("button", "Odd"), page.all("button", "Even")
    numbers = [int(e.name) for e in page.all("div", style="display-number")]
    buttons = [odd if number % 2 else even for number, odd, even in zip(numbers, odds, evens, strict=True)]
    open_ones = [e for e in buttons if "selected" not in e.fact("class").split()]
    return click(open_ones[0]) if open_ones else submit(page)


def multi(page: Page) -> str:
    """Return the next action for filling in a movie form, in which labels are before, after or inside the fields."""
    genre, director, year = page.match(r"Search for (.*) movies directed by (.*) from year (\d+)").groups()
    words = {"genre": genre, "director": director, "year": year, "date": year}

    def meant(text: str) -> str | None:
        values = [value for word, value in words.items() if word in text.lower()]
        return values[0] if len(values) == 1 else None

    order: list[tuple[str, str | Element]] = []
    for e in page.parts:
        if e.role == "textbox":
            order.append(("field", e))
        elif (value := meant(e.name)) is not None and e.role not in ("button", "cell", "row", "table"):
            order.append(("label", value))
    fields = [what for kind, what in order if kind == "field"]
    own = [meant(e.name or e.fact("placeholder")) for e in fields if isinstance(e, Element)]
    labels = own if None not in own else [what for kind, what in order if kind == "label"]
    entries = [(e, str(value)) for e, value in zip(fields, labels, strict=False) if isinstance(e, Element)]
    last = [e for e in page.elements if e.role != "textbox" and (e.name in ("Search", "Submit", "Go!", "Find Movie"))]
    return entered(page, *entries) or click(last[-1])


def sign_agreement(page: Page) -> str:
    cancel = page.one("button", "Cancel")
    if "cancel button" in page.goal.lower():
        return click(cancel)
    area, field = page.one("textbox", None), page.all("textbox")[-1]
    if field.has("disabled"):
        return call("scroll", direction="down", id=area.id)
    name, label = page.quoted()[:2]
    return entered(page, (field, name)) or click(page.one("button", label))


def slider_keys(page: Page, value: int, target: int) -> str:
    """Return the key press that moves a focused slider toward its target."""
    return spell("press", "ArrowRight" if value < target else "ArrowLeft")


def form_sequence(page: Page) -> str:
    number, which = page.match(r"Select (-?\d+) with the slider, click the (\w+) checkbox").groups()
    boxes, handle = page.all("checkbox"), page.one("span", style="ui-slider-handle")
    value = next(int(e.name) for e in page.elements if re.fullmatch(r"-?\d+", e.name))
    if value != int(number):
        return slider_keys(page, value, int(number)) if handle.has("focused") else click(handle)
    wrong = [e for i, e in enumerate(boxes) if e.has("checked") != (i == nth(which))]
    return click(wrong[0]) if wrong else submit(page)


SOLVERS: dict[str, Solver] = {
    "choose-list": choose_list,
    "click-scroll-list": scroll_list,
    "enter-text": enter_text,
    "enter-text-dynamic": enter_text,
    "enter-text-2": enter_text_2,
    "enter-password": enter_password,
    "login-user": login_user,
    "login-user-popup": login_user,
    "text-transform": text_transform,
    "copy-paste": copy_paste,
    "copy-paste-2": copy_paste,
    "find-word": find_word,
    "scroll-text": scroll_text,
    "read-table": read_table,
    "read-table-2": read_table_2,
    "simple-arithmetic": arithmetic,
    "simple-algebra": algebra,
    "enter-date": enter_date,
    "enter-time": enter_time,
    "choose-date": choose_date,
    "choose-date-easy": choose_date,
    "choose-date-medium": choose_date,
    "choose-date-nodelay": choose_date,
    "use-spinner": use_spinner,
    "use-autocomplete": autocomplete,
    "use-autocomplete-nodelay": autocomplete,
    "form-sequence": form_sequence,
    "form-sequence-2": radio_and_text,
    "form-sequence-3": dropdown_and_button,
    "guess-number": guess_number,
    "odd-or-even": odd_or_even,
    "multi-layouts": multi,
    "multi-orderings": multi,
    "sign-agreement": sign_agreement,
}
