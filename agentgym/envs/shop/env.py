"""Online shop environment: search, results, product pages, options, and one purchase."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import ClassVar

import numpy as np

from agentgym.core.declared import Declarations
from agentgym.core.env import Outcome, Task, TextEnv
from agentgym.envs.shop import buyer
from agentgym.envs.shop.catalogue import Catalogue, Product
from agentgym.envs.shop.files import Goods, load
from agentgym.envs.shop.generate import SIZE, catalogue, goal_of
from agentgym.envs.shop.score import Goal, score
from agentgym.errors import BadConfig, UnknownName, no_such
from agentgym.tasks.reading import reading

PAGES = ("webshop", "verl-agent")
SEPARATOR = " [SEP] "
MORE_TURNS = 10
"""Additional turns per level of difficulty."""
SUB_PAGES = ("description", "features", "reviews")


class Shop(TextEnv):
    """Search for a product, choose its options and buy it, as in WebShop (Yao et al. 2022, arXiv 2207.01206).

    Pages, commands (`search[…]`, `click[…]`) and scoring are those of WebShop in `text` mode. The catalogue is
    generated: 5,000 products in ten categories, in groups of five similar products. From difficulty 3 on, each level
    adds 5,000 products (unless `products` is set). A wish names 1 + difficulty attributes and as many options, if the
    product has them. `split_key` is the product.

    Reward: 1 for a purchase with score 1, else 0. The score and its parts (`type`, `attributes`, `options`, `price`)
    are measures; `shaping={"score": 0.9}` makes the score part of the reward. After an invalid action, the current page
    is shown again, as in WebShop, unless `feedback="helpful"`.

    `pages="verl-agent"` shows pages and commands in verl-agent's format. The page starts after the wish, each part is
    in quotes, and a search bar adds the commands `search[<your query>]` and `click[search]` (which does nothing).

    The first result of a search for the wish is wrong: it matches the words, but has another attribute, option or
    price. Titles and prices on the result page rule out most of the other wrong products. Each level of difficulty adds
    ten turns.

    Ceilings: `first_result` searches for the wish and buys the first result unchanged; `first hit` also clicks the
    options that the wish names. Each task uses the wish, out of up to 30 drawn, that helps these policies least. One of
    the first five results is usually right, so buying the second (`second_result`) succeeds in about one task in four.
    Catalogues with fewer than 5,000 products (`preset="tiny"`) do not select wishes, and `first hit` and
    `second_result` succeed in 95 % and 82 % of the tasks.
    """

    horizon = 15
    hardest = 200
    feedback = "genuine"
    task_settings: ClassVar[tuple[str, ...]] = ("products", "pages", "per_page", "show_attrs")
    settings: ClassVar[tuple[str, ...]] = task_settings
    products: int = 0
    """Minimum number of products for sale; 0: set by the difficulty."""
    pages: str = "webshop"
    """Format of pages and commands: `webshop` or `verl-agent`."""
    per_page: int = 10
    """Number of products per page of results."""
    show_attrs: bool = False
    """Add a page to each product with its attributes, category, query and category path, as in WebShop."""
    presets: ClassVar[Mapping[str, Mapping[str, object]]] = {
        "tiny": {"difficulty": 0, "products": 200, "per_page": 5, "horizon": 8}
    }
    declared = Declarations(
        random_bound=0.02,
        expert_bound=0.7,
        answers=("asin",),
        ceilings={"first_result": 0.15, "first hit": 0.05, "second_result": 0.3},
    )
    shared = ("shop", "goal")

    def check_options(self) -> None:
        if self.pages not in PAGES:
            raise UnknownName(no_such(f"pages of {type(self).__name__}", str(self.pages), PAGES))
        for name, least in (("products", 0), ("per_page", 1)):
            value: object = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise BadConfig(f"{name} of {type(self).__name__} is {value!r}; expected a number from {least}")
        if not isinstance(self.show_attrs, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise BadConfig(f"show_attrs of {type(self).__name__} is {self.show_attrs!r}; expected True or False")
        super().check_options()

        if 0 < self.products < SIZE:
            most = self.declared.ceilings
            alike = {name: max(0.95, most[name]) for name in ("first hit", "second_result")}
            self.declared = replace(self.declared, ceilings={**most, **alike})

    # Tasks

    def limit_of(self, task: Task) -> int:
        """Return a task's turn limit: `horizon` if it was set, else a default that grows with difficulty."""
        return self.horizon if "horizon" in self.__dict__ else self.horizon + MORE_TURNS * task.difficulty

    def generate(self, rng: np.random.Generator, difficulty: int) -> Task:
        """Draw a wish that at least one product of the catalogue fulfills."""
        wish = goal_of(rng, self.catalogue(difficulty), difficulty)
        return Task(instruction=str(wish["text"]), data=wish)

    def split_key(self, task: Task) -> object:
        """Return the id of the wanted product."""
        return task.data["asin"]

    def catalogue(self, difficulty: int) -> Catalogue:
        """Return the products for sale at a difficulty."""
        return catalogue(self.products or SIZE * max(1, difficulty - 1))

    # The episode

    def begin(self, task: Task) -> str:
        data = task.data
        self.shop = self.catalogue(task.difficulty)
        option_list: list[str | list[object]] = list(data["options"])
        options = tuple(option if isinstance(option, str) else (str(option[0]), str(option[1])) for option in option_list)
        self.goal = Goal(data["asin"], task.instruction, tuple(data["attributes"]), options, data["cap"])
        self.page, self.keywords, self.number, self.sub = "search", "", 1, ""
        self.product: Product | None = None
        self.options_taken: dict[str, str] = {}
        self.score: dict[str, float] = {}
        self.seen: dict[str, str] = {}
        """Product id -> text of all its pages shown so far."""
        return self._text()

    def act(self, action: str) -> str | Outcome:
        name, value = _parted(action)
        if name == "search":
            self._search(value)
            return self._text()
        if name != "click" or value not in self.clickable():
            return self._refused(action, name)
        if value == "search":
            return self._text()
        if value == "buy now":
            return self._bought()
        self._click(value)
        if self.product is not None:
            asin, page = self.product.asin, SEPARATOR.join(self._parts())
            self.seen = {**self.seen, asin: f"{self.seen.get(asin, '')}\n{self.sub}: {page}".lower()}
        return self._text()

    def _refused(self, action: str, name: str) -> Outcome:
        if name == "click":
            choices = ", ".join(f"click[{target}]" for target in self.clickable()) or "only search[…]"
            problem = f"{action.strip()[:80]!r} is not on this page. Possible: {choices}."
        else:
            problem = f"{action.strip()[:80]!r} is not an action. Write search[words] or click[something on the page]."
        return Outcome(self._text() if self.feedback == "genuine" else problem, valid=False, error=problem)

    def _search(self, keywords: str) -> None:
        self.page, self.keywords, self.number, self.sub = "results", keywords, 1, ""
        self.product, self.options_taken = None, {}

    def _click(self, value: str) -> None:
        if value == "back to search":
            self.page, self.keywords, self.number, self.sub, self.product, self.options_taken = "search", "", 1, "", None, {}
        elif value in ("< prev", "next >"):
            self._turn_page(value)
        elif self.page == "results":
            self.page, self.product = "item", self.shop.by_asin[value]
        elif value in self._sub_pages():
            self.page, self.sub = "sub", value
        else:
            assert self.product is not None
            name = next(name for name, values in reversed(self.product.options.items()) if value in values)
            self.options_taken = {**self.options_taken, name: value}

    def _turn_page(self, value: str) -> None:
        if self.page == "sub":
            self.page, self.sub = "item", ""
        elif self.page == "item":
            self.page, self.product, self.options_taken = "results", None, {}
        else:
            self.number += 1 if value == "next >" else -1

    def _bought(self) -> Outcome:
        assert self.product is not None
        self.score = score(self.product, self.shop.by_asin[self.goal.asin.lower()], self.goal, self.options_taken)
        self.page = "done"
        text = self._text()
        return self.win(text) if self.score["score"] == 1 else self.lose(text)

    def results(self) -> tuple[str, ...]:
        """Return the ids of the products on the current page of results, in lower case."""
        hits = self.shop.search(self.keywords)
        return hits[self.per_page * (self.number - 1) : self.per_page * self.number]

    def clickable(self) -> list[str]:
        """Return the clickable items, in WebShop's order."""
        if self.page == "results":
            return ["back to search", *(["< prev"] if self.number > 1 else []), "next >", *self.results()]
        if self.page == "sub":
            return ["back to search", "< prev"]
        if self.page == "item" and self.product is not None:
            values = [value for options in self.product.options.values() for value in options]
            return ["back to search", "< prev", *self._sub_pages(), "buy now", *values]
        return ["search"] if self.page == "search" and self.pages == "verl-agent" else []

    def admissible(self) -> list[str] | None:
        bar = ["search[<your query>]"] if self.page == "search" and self.pages == "verl-agent" else []
        return [*bar, *(f"click[{value}]" for value in self.clickable())] or None

    def state(self) -> object:
        asin = self.product.asin if self.product else ""
        return self.page, self.keywords, self.number, self.sub, asin, sorted(self.options_taken.items())

    def measures(self) -> dict[str, float]:
        """Return the score of the purchase and its parts; all are 0 before a purchase."""
        return {name: self.score.get(name, 0.0) for name in ("score", "type", "attributes", "options", "price")}

    # Pages

    def _text(self) -> str:
        text = SEPARATOR.join(self._page_parts())
        return text if self.pages == "webshop" else _quoted(text, self.goal.instruction)

    def _page_parts(self) -> list[str]:
        if self.page == "done":
            return self._receipt()
        if self.page == "search":
            return ["WebShop", "Instruction:", self.goal.instruction, "Search"]
        return ["Instruction:", self.goal.instruction, "Back to Search", *self._parts()]

    def _parts(self) -> list[str]:
        if self.page == "results":
            parts = [f"Page {self.number} (Total results: {len(self.shop.search(self.keywords))})"]
            parts += [*(["< Prev"] if self.number > 1 else []), "Next >"]
            for asin in self.results():
                product = self.shop.by_asin[asin]
                parts += [product.asin, product.title, product.price_tag]
            return parts
        product = self.product
        assert product is not None
        if self.page == "sub":
            pages: dict[str, tuple[str, ...]] = {
                "description": (product.description,),
                "features": product.bullets,
                "reviews": (),
                "attributes": (*product.attributes, product.category, product.query, product.product_category),
            }
            return ["< Prev", *(text for text in pages[self.sub] if text.strip())]
        parts = ["< Prev"]
        for name, values in product.options.items():
            parts += [name, *values]
        return [*parts, product.title, f"Price: {product.price_tag}", "Rating: N.A.", *_titles(self._sub_pages()), "Buy Now"]

    def _sub_pages(self) -> tuple[str, ...]:
        return (*SUB_PAGES, "attributes") if self.show_attrs else SUB_PAGES

    def _receipt(self) -> list[str]:
        assert self.product is not None
        parts = ["Thank you for shopping with us!", "Your code:", "None", "(Paste it in your MTurk interface.)"]
        parts += ["Purchased", "asin", self.product.asin, "options", json.dumps(self.options_taken, ensure_ascii=False)]
        parts += ["attrs", "category", "query", "product category", "Target", "asin", "options", "attrs", "price upper"]
        parts += ["instuction text", "category", "product category", "query", "Goal", "None"]  # misspelt there
        parts += ["Reward", "Your score (min 0.0, max 1.0)", str(self.score["score"]), "Reward Details", "None"]
        return parts

    # Policies

    def oracle(self) -> Iterator[str]:
        return buyer.oracle(self)

    def expert(self) -> Iterator[str]:
        while True:
            yield buyer.next_action(self)

    def shortcuts(self) -> Mapping[str, Callable[[list[str]], str]]:
        own: dict[str, Callable[[list[str]], str]] = {
            "first_result": buyer.first_result,
            "second_result": buyer.second_result,
        }
        return {**own, "buy_now": lambda seen: "click[buy now]"}


class WebShop(Shop):
    """Shop with WebShop's data; `data` is your copy of the folder that WebShop's setup.sh fills.

    `goals` are `synthetic` (one for each combination of a product's options) or `human`. They are in WebShop's order,
    shuffled with seed 233, and the splits are those of WebShop's baselines: test 0 to 499, valid 500 to 1499, train the
    rest. Prices within a range and maximum prices are drawn from the product's id and the goal's number; WebShop draws
    them before it sets its seed.

    Ceiling: the goals are those of the data, so the first result of a search for a goal may be right. The success of
    `first hit` and `second_result` depends on the file; if few products are alike, they may always succeed.
    """

    splits: Mapping[str, float] = {"train": 0.8, "valid": 0.1, "test": 0.1}
    task_settings: ClassVar[tuple[str, ...]] = ("goals", "strict")
    caller_settings: ClassVar[tuple[str, ...]] = ("data",)
    settings: ClassVar[tuple[str, ...]] = (*Shop.settings, *caller_settings, *task_settings)
    declared = replace(Shop.declared, ceilings={"first_result": 0.15, "first hit": 1.0, "second_result": 1.0})
    data: str | None = None
    """Folder with items_shuffle.json, items_ins_v2.json and items_human_ins.json, or with the 1,000-product files.

    None: the environment variable AGENTGYM_DATA.
    """
    goals: str = "synthetic"
    strict: bool = False
    """Reject a file that has a bad product; by default, bad products are skipped and counted in a warning."""
    products: int = 0
    """Number of products to read from the file; 0: all."""

    def check_options(self) -> None:
        if self.goals not in ("synthetic", "human"):
            raise UnknownName(no_such("goals of WebShop", str(self.goals), ("synthetic", "human")))
        super().check_options()
        self.goods: Goods = load(self.data, self.goals, self.products, reading(self.strict, ()))

    def catalogue(self, difficulty: int) -> Catalogue:
        """Return the file's products."""
        return self.goods.catalogue

    def numbered(self, number: int, split: str | None = None, difficulty: int | None = None) -> Task:
        """Return a split's task by number, wrapping around at the end."""
        return self.goods.task(self._split_for(number, split), number)

    def find(self, task_id: str) -> Task:
        """Return the task with this id, such as `test/17`: the split, and the goal's position among all goals, from 0."""
        return self.goods.find(task_id)

    def split_of(self, task: Task) -> str:
        """Return the split, which the goal's position determines."""
        return task.split

    def size(self, split: str | None = None) -> int | None:
        """Return the number of goals in a split, by default the environment's own."""
        return self.goods.size(split or self.split)

    def split_key(self, task: Task) -> object:
        """Return the goal's text and product; goals about one product occur in several splits, as published."""
        return task.instruction, task.data["asin"]


def _parted(action: str) -> tuple[str, str]:
    r"""Return the text before the last brackets and, in lower case, the text in them; both "" without brackets.

    This equals WebShop's greedy `(.+)\[(.+)\]`, which ignores text after the last bracket. The regular expression
    itself would take quadratic time.
    """
    line = action.strip().partition("\n")[0]
    end = line.rfind("]")
    start = line.rfind("[", 1, max(end - 1, 1))
    return (line[:start], line[start + 1 : end].lower()) if start > 0 else ("", "")


def _quoted(text: str, wish: str) -> str:
    """Return a page in verl-agent's format: the parts after the wish, in quotes; unchanged if the page has no wish."""
    parts = text.split(SEPARATOR)
    if wish not in parts:
        return text
    return SEPARATOR.join(f"'{part}'" for part in parts[parts.index(wish) + 1 :])


def _titles(words: tuple[str, ...]) -> list[str]:
    return [word.capitalize() for word in words]
