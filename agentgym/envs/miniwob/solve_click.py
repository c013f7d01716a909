"""Solvers of tasks that need only clicks."""

import re
from collections.abc import Callable
from functools import cache

from agentgym.browser.observation import Element
from agentgym.core.actions import spell
from agentgym.envs.miniwob.page import Page, Solver, call, click, nth, submit

GOAL_HEIGHT = 50  # pixels above every drawing, the origin of page coordinates


def button(page: Page) -> str:
    return click(page.one("button", page.quoted()[0]))


def click_test(page: Page) -> str:
    return click(page.one("button", "Click Me!"))


def click_test_2(page: Page) -> str:
    return click(page.one("button", page.match(r"button (\w+)")[1]))


def click_button_sequence(page: Page) -> str:
    first = page.one("button", "ONE")
    return click(page.one("button", "TWO") if first.has("focused") else first)


def checkboxes(page: Page) -> str:
    labels = set(page.match(r"Select (.*) and click")[1].split(", ")) - {"nothing"}
    wrong = [e for e in page.all("checkbox") if e.has("checked") != (e.name in labels)]
    return click(wrong[0]) if wrong else submit(page)


def click_option(page: Page) -> str:
    option = page.one("radio", page.match(r"Select (.*) and click")[1])
    return submit(page) if option.has("checked") else click(option)


def click_dialog(page: Page) -> str:
    return click(page.one("button", "Close"))


def click_dialog_2(page: Page) -> str:
    name = page.quoted()[0]
    return click(page.one("button", "Close" if name == "x" else name))


def click_link(page: Page) -> str:
    return click(page.one("span", page.quoted()[0], "alink"))


def click_tab(page: Page) -> str:
    return click(page.one("link", page.match(r"Tab #\d+")[0]))


def _next(sections: list[Element]) -> Element:
    """Return the section after the open one; after the last, or if none is open, return the first."""
    opened = next((i for i, e in enumerate(sections) if e.has("selected") or e.has("expanded")), -1)
    return sections[(opened + 1) % len(sections)]


def link_in_sections(page: Page) -> str:
    links = page.all("span", page.quoted()[0], "alink")
    return click(links[0] if links else _next([e for e in page.all("tab") if e.name]))


def click_collapsible(page: Page) -> str:
    section = next(e for e in page.all("tab") if e.name.startswith("Section"))
    return submit(page) if section.has("expanded") else click(section)


def click_widget(page: Page) -> str:
    kind = page.quoted()[0]
    fields = page.all("textbox")
    if kind in ("text", "textarea"):
        return click(next(e for e in fields if e.has("multiline") == (kind == "textarea")))
    return click(page.one(kind))


def click_color(page: Page) -> str:
    color = page.match(r"Click on the (.*) colored box")[1]
    return click(next(e for e in page.all("div", style="color") if e.fact("background") == color))


def focus_text(page: Page) -> str:
    return click(page.one("textbox"))


def focus_text_2(page: Page) -> str:
    return click(page.all("textbox")[nth(page.match(r"the (\w+) input")[1])])


def buy_ticket(page: Page) -> str:
    def minutes(e: Element) -> int:
        match = re.fullmatch(r"(?:(\d+)h)? ?(?:(\d+)m)?", e.name)
        return int(match[1] or 0) * 60 + int(match[2] or 0) if match else 0

    durations = [minutes(e) for e in page.all("div", style="time-duration")]
    tickets = page.all("button", style="buy-ticket")
    prices = [int(e.name.rpartition("$")[2]) for e in tickets]
    values = durations if "duration" in page.goal else prices
    best = max(values) if "longest" in page.goal or "most" in page.goal else min(values)
    return click(tickets[values.index(best)])


def generate_number(page: Page) -> str:
    number_text = page.one("div").name
    limit = re.search(r"than (\d+)", page.goal)
    if number_text.isdecimal():
        number = int(number_text)
        if limit:
            good = number < int(limit[1]) if "less" in page.goal else number > int(limit[1])
        else:
            good = number % 2 == ("odd" in page.goal)
        if good:
            return submit(page)
    return click(page.one("button", "Generate"))


def find_greatest(page: Page) -> str:
    greatest = max((e for e in page.elements if e.name.isdecimal()), key=lambda e: int(e.name))
    return click(greatest) if "hidden" in greatest.fact("class") else submit(page)


def ascending_numbers(page: Page) -> str:
    first = page.all("text", "1")
    return click(first[0] if first else page.one("rect"))


def grid_coordinate(page: Page) -> str:
    x, y = (int(number) for number in page.match(r"\((-?\d), ?(-?\d)\)").groups())
    center = str(75 + 30 * x), str(75 - 30 * y)
    return click(next(e for e in page.all("circle") if (e.fact("cx"), e.fact("cy")) == center))


def identify_shape(page: Page) -> str:
    shape = next(e for e in page.elements if e.role in ("rect", "circle", "polygon", "text"))
    names = {"rect": "Rectangle", "circle": "Circle", "polygon": "Triangle"}
    return click(page.one("button", names.get(shape.role) or ("Number" if shape.name.isdecimal() else "Letter")))


def _is(e: Element, word: str) -> bool:
    """Return whether a drawn element matches a word of the goal."""
    kinds = {"circle": "circle", "rectangle": "rect", "triangle": "polygon"}
    if e.name and word in (e.name, e.name + "s"):
        return True
    word = word.rstrip("s")
    if word in kinds:
        return e.role == kinds[word]
    if word in ("letter", "digit"):
        return e.role == "text" and e.name.isdecimal() == (word == "digit")
    if word in ("small", "large"):
        return _small(e) == (word == "small")
    if word == "shape":
        return e.role != "text"
    return word in ("item", "object") or e.fact("fill") == word


def _small(e: Element) -> bool:
    if e.role == "text":
        return e.fact("font-size") == "10px"
    if e.role == "circle":
        return float(e.fact("r")) <= 5
    if e.role == "rect":
        return float(e.fact("width")) <= 10
    points = [float(point.split(",")[0]) for point in e.fact("points").split()]
    return max(points) - min(points) <= 10


def _drawn(page: Page, words: list[str]) -> list[Element]:
    shapes = [e for e in page.elements if e.role in ("text", "circle", "rect", "polygon")]
    return [e for e in shapes if all(_is(e, word) for word in words)]


def click_shape(page: Page) -> str:
    return click(_drawn(page, page.match(r"Click on an? (.*)")[1].rstrip(".").split())[0])


def count_shape(page: Page) -> str:
    count = len(_drawn(page, page.match(r"How many (.*) are there")[1].split()))
    return click(page.one("button", str(count)))


LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))
RANDOM_SHARE = 0.55
"""Probability that the page's opponent marks any free cell; else it completes its line or blocks the agent's if it can."""


def _with(board: str, cell: int, mark: str) -> str:
    return board[:cell] + mark + board[cell + 1 :]


def _completing(board: str, mark: str) -> list[int]:
    """Return the indices of the cells with which a player completes a line; `mark` is `x` or `o`."""
    return [i for line in LINES for i in line if board[i] == " " and [board[j] for j in line].count(mark) == 2]


@cache
def win_probability(board: str, x_moves: bool) -> float:
    """Return X's probability of winning with best play; `x_moves` is True if X moves next.

    `board` has nine characters: `x`, `o` or a space. A draw counts as a loss, as on the page.
    """
    lines = {"".join(board[i] for i in line) for line in LINES}
    free = [i for i, cell in enumerate(board) if cell == " "]
    if lines & {"xxx", "ooo"} or not free:
        return float("xxx" in lines)
    if x_moves:
        return max(win_probability(_with(board, i, "x"), False) for i in free)
    values = {i: win_probability(_with(board, i, "o"), True) for i in free}
    clever = set(_completing(board, "o")) or set(_completing(board, "x")) or set(free)
    means = [sum(values[i] for i in cells) / len(cells) for cells in (free, clever)]
    return RANDOM_SHARE * means[0] + (1 - RANDOM_SHARE) * means[1]


def tic_tac_toe(page: Page) -> str:
    cells = page.all("span")
    board = "".join({"mark-x": "x", "mark-o": "o"}.get(e.fact("class"), " ") for e in cells)
    free = [i for i, cell in enumerate(board) if cell == " "]
    return click(cells[max(free, key=lambda i: win_probability(_with(board, i, "x"), False))])


def click_menu(page: Page) -> str:
    path = page.match(r"Select (.*)")[1].split(">")
    items = {e.name: e for e in page.all("menuitem")}
    deepest = max(i for i, name in enumerate(path) if name in items)
    return click(items[path[-1]]) if deepest == len(path) - 1 else spell("hover", items[path[deepest]].id)


def navigate_tree(page: Page) -> str:
    target = page.quoted()[0]
    matching = [e for e in page.all("span") if e.name == target]
    if matching:
        return click(matching[0])
    return click(page.one("div", style="expandable-hitarea"))


def social_media_submit(page: Page) -> str:
    action, user = page.quoted()[0].lower(), page.match(r"by (@\S+)")[1]
    amount = re.search(r"on (\d+) post", page.goal)
    author, right, wrong = "", list[Element](), list[Element]()
    for e in page.elements:
        if "username" in e.fact("class").split():
            author = e.name
        kind = next((k for k in ("reply", "retweet", "like", "share") if k in e.fact("class").split()), None)
        if kind is None:
            continue
        active = "active" in e.fact("class").split()
        if author == user and kind == action:
            right.append(e)
        elif active:
            wrong.append(e)
    on = [e for e in right if "active" in e.fact("class").split()]
    off = [e for e in right if e not in on]
    count = int(amount[1]) if amount else len(right)
    todo = wrong[:1] or (on[:1] if len(on) > count else off[:1] if len(on) < count else [])
    return click(todo[0]) if todo else submit(page)


def circle_center(page: Page) -> str:
    return _point_then_submit(page, lambda: _center(page))


def find_midpoint(page: Page) -> str:
    a, b = page.all("circle")[:2]
    middle = [(float(a.fact(c)) + float(b.fact(c))) / 2 for c in ("cx", "cy")]
    return _point_then_submit(page, lambda: (middle[0], middle[1]))


def _center(page: Page) -> tuple[float, float]:
    circle = max(page.all("circle"), key=lambda e: float(e.fact("r")))
    return float(circle.fact("cx")), float(circle.fact("cy"))


def _point_then_submit(page: Page, find: Callable[[], tuple[float, float]]) -> str:
    """Return the click on a point of the drawing or, once the point is set, the click on Submit."""
    x, y = find()
    blue = [e for e in page.all("circle") if e.fact("fill") == "blue"]
    if any(abs(float(e.fact("cx")) - x) < 1.5 and abs(float(e.fact("cy")) - y) < 1.5 for e in blue):
        return submit(page)
    return call("mouse_click", x=x, y=y + GOAL_HEIGHT)


SOLVERS: dict[str, Solver] = {
    "click-button": button,
    "unicode-test": button,
    "click-test": click_test,
    "click-test-2": click_test_2,
    "click-test-transfer": click_test_2,
    "click-button-sequence": click_button_sequence,
    "click-checkboxes": checkboxes,
    "click-checkboxes-large": checkboxes,
    "click-checkboxes-transfer": checkboxes,
    "click-option": click_option,
    "click-dialog": click_dialog,
    "click-dialog-2": click_dialog_2,
    "click-link": click_link,
    "click-tab": click_tab,
    "click-tab-2": link_in_sections,
    "click-tab-2-easy": link_in_sections,
    "click-tab-2-medium": link_in_sections,
    "click-tab-2-hard": link_in_sections,
    "click-collapsible": click_collapsible,
    "click-collapsible-nodelay": click_collapsible,
    "click-collapsible-2": link_in_sections,
    "click-collapsible-2-nodelay": link_in_sections,
    "click-widget": click_widget,
    "click-color": click_color,
    "focus-text": focus_text,
    "focus-text-2": focus_text_2,
    "buy-ticket": buy_ticket,
    "generate-number": generate_number,
    "find-greatest": find_greatest,
    "ascending-numbers": ascending_numbers,
    "grid-coordinate": grid_coordinate,
    "identify-shape": identify_shape,
    "click-shape": click_shape,
    "count-shape": count_shape,
    "tic-tac-toe": tic_tac_toe,
    "click-menu": click_menu,
    "navigate-tree": navigate_tree,
    "social-media-all": social_media_submit,
    "social-media-some": social_media_submit,
    "circle-center": circle_center,
    "find-midpoint": find_midpoint,
}
