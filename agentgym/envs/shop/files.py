"""Loader for WebShop's files: products, goals and the order of goals.

Products that cannot be sold are skipped and counted. Columns that WebShop never shows (reviews, models, brands) are not
read, so of the reading options only `strict` has an effect.
"""

import itertools
import json
import os
import random
import re
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, cast

from agentgym.core.env import Task
from agentgym.core.seeding import generator
from agentgym.envs.shop.catalogue import Catalogue, Product
from agentgym.envs.shop.generate import NO_CAP, price_sentence
from agentgym.errors import BadConfig, BadData
from agentgym.tasks.reading import PLAIN, Reading, Rows

JsonObject = dict[str, Any]

ORDER = 233
"""Seed with which WebShop shuffles the goals."""
BOUNDS = {"test": (0, 500), "valid": (500, 1500), "train": (1500, None)}
"""Split -> (first goal position, end), as in WebShop's baselines; the end is exclusive, None: no end."""
SMALL = 1000
"""Number of products in WebShop's small files, which are preferred if no more products than this are requested."""
SETS = (("items_shuffle.json", "items_ins_v2.json"), ("items_shuffle_1000.json", "items_ins_v2_1000.json"))
HUMAN = "items_human_ins.json"
NOTHING = "DUMMY_ATTR"


@dataclass(frozen=True)
class Goods:
    """Products and goals from one folder."""

    catalogue: Catalogue
    goals: tuple[Task, ...]
    folder: str

    def task(self, split: str, number: int) -> Task:
        """Return a split's goal by number, wrapping around at the end.

        Raises:
            BadData: the split has no goals.
        """
        goals = self.goals[slice(*BOUNDS[split])]
        if not goals:
            raise BadData(f"{self.folder} has {len(self.goals)} goals, and split {split} begins at goal {BOUNDS[split][0]}")
        return goals[number % len(goals)]

    def find(self, task_id: str) -> Task:
        """Return the goal with this id, `SPLIT/NUMBER`; the number is the position among all goals, from 0.

        Raises:
            BadConfig: the id is malformed or out of range, or the goal is in another split.
        """
        split, _, number = task_id.partition("/")
        if split not in BOUNDS or not (number.isascii() and number.isdigit()) or int(number) >= len(self.goals):
            raise BadConfig(f"task id {task_id!r} of WebShop: expected SPLIT/NUMBER, for example test/17")
        goal = self.goals[int(number)]
        if goal.split != split:
            raise BadConfig(f"task id {task_id!r} of WebShop: goal {number} is of split {goal.split}, {goal.id}")
        return goal

    def size(self, split: str) -> int:
        """Return the number of goals in a split."""
        return len(self.goals[slice(*BOUNDS[split])])


def load(data: str | None, goals: str, count: int, reading: Reading = PLAIN) -> Goods:
    """Load a folder of WebShop's files; BadData names a malformed file.

    `data` is the folder; None or "": the environment variable AGENTGYM_DATA. `goals` is `synthetic` or `human`, and
    `count` is the number of products to read (0: all).

    Raises:
        BadConfig: no folder was given or found.
    """
    folder = data or os.environ.get("AGENTGYM_DATA")
    if not folder:
        raise BadConfig(
            "WebShop needs data=FOLDER or AGENTGYM_DATA: the folder with items_shuffle*.json, items_ins_v2*.json and "
            "items_human_ins.json that WebShop's setup.sh downloads. rlvr/Shop-v0 needs no data"
        )
    return _load(str(Path(folder).expanduser().resolve()), goals, count, reading)


@lru_cache(maxsize=2)
def _load(folder: str, goals: str, count: int, reading: Reading) -> Goods:
    root = Path(folder)
    for names in reversed(SETS) if 0 < count <= SMALL else SETS:
        if all((root / name).is_file() for name in names):
            items, attributes = (_json(root / name) for name in names)
            break
    else:
        raise BadConfig(f"{folder} has neither {' and '.join(SETS[0])} nor {' and '.join(SETS[1])}")
    human: Any = _json(root / HUMAN) if goals == "human" else {}
    products: list[Product] = []
    wishes: JsonObject = {}
    rows = Rows(folder, reading)
    for number, raw in enumerate(items[: count or None]):
        try:
            product = _product(raw, attributes, f"{root}, product {number}")
        except BadData as error:
            rows.skip(error)
            continue
        if product is not None and product.asin not in wishes:
            products.append(product)
            wishes[product.asin] = human.get(product.asin, []) if goals == "human" else attributes.get(product.asin, {})
    rows.close(len(products))
    catalogue = Catalogue(products)
    drafts = (
        [_human(p, wish) for p in products for wish in wishes[p.asin]] if goals == "human" else _synthetic(products, wishes)
    )
    drafts = [draft for draft in drafts if draft is not None]
    random.Random(ORDER).shuffle(drafts)
    return Goods(catalogue, tuple(_task(catalogue, draft, place) for place, draft in enumerate(drafts)), folder)


def _json(path: Path) -> Any:
    try:
        content: Any = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError) as error:
        raise BadData(f"{path}: {error}; expected a JSON file of WebShop's") from error
    kind = list if path.name.startswith("items_shuffle") else dict
    if not isinstance(content, kind):
        raise BadData(f"{path}: holds a {type(content).__name__}; expected a {kind.__name__}")
    return cast("object", content)


def _product(raw: JsonObject, attributes: JsonObject, where: str) -> Product | None:
    """Return a product by WebShop's rules; None if WebShop leaves it out.

    Raises:
        BadData: the product lacks a field or has a malformed one; the message begins with `where`.
    """
    asin = raw.get("asin", "nan") if isinstance(raw, dict) else None  # pyright: ignore[reportUnnecessaryIsInstance]
    if not isinstance(asin, str):
        raise BadData(f"{where}: {str(raw)[:60]!r}; expected a product with an asin")
    if asin == "nan" or len(asin) > 10:
        return None
    try:
        prices = [float(price.replace(",", "")) for price in re.findall(r"\$([\d,]+(?:\.\d+)?)", raw.get("pricing") or "")][
            :2
        ]
        choices: dict[str, list[dict[str, str]]] = raw.get("customization_options") or {}
        options = {
            name.lower(): tuple(dict.fromkeys(value["value"].strip().replace("/", " | ").lower() for value in values))
            for name, values in choices.items()
            if values
        }
        bullets: object = raw.get("small_description") or []
        about: JsonObject = attributes.get(asin) or {}
        return Product(
            asin=asin,
            title=raw["name"],
            category=raw["category"],
            query=raw["query"].lower().strip(),
            product_category=raw["product_category"],
            description=raw.get("full_description") or "",
            bullets=tuple(cast("list[str]", bullets)) if isinstance(bullets, list) else (str(bullets),),
            price=_price(asin, prices),
            price_tag=" to ".join(f"${price}" for price in prices) or "$100.0",
            options=options,
            attributes=tuple(about.get("attributes") or (NOTHING,)),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise BadData(f"{where}: {asin} has no usable {error}; expected WebShop's fields") from error


def _price(asin: str, prices: list[float]) -> float:
    if len(prices) < 2:
        return prices[0] if prices else 100.0
    return float(generator("WebShop price", asin).uniform(prices[0], prices[1]))


Draft = tuple[Product, str, tuple[str, ...], list[object], float]


def _synthetic(products: list[Product], wishes: JsonObject) -> list[Draft | None]:
    """Return a goal for each combination of a product's option values, as (product, text, attributes, options, weight).

    Products without an instruction or attributes have no goals.
    """
    drafts: list[Draft | None] = []
    counts: Counter[str] = Counter()
    for product in products:
        counts.update(cast("list[str]", wishes[product.asin].get("instruction_attributes") or []))
    for product in products:
        about = wishes[product.asin]
        attributes = tuple(cast("list[str]", about.get("instruction_attributes") or []))
        if not about.get("instruction") or not attributes:
            continue
        weight = sum(1 / counts[attribute] for attribute in attributes) / len(attributes)
        names = sorted(product.options)
        for values in itertools.product(*(product.options[name] for name in names)):
            options = ", and ".join(f"{name}: {value}" for name, value in zip(names, values, strict=True))
            text = about["instruction"].strip(".") + (f" with {options}" if options else "")
            drafts.append((product, text, attributes, [list(pair) for pair in zip(names, values, strict=True)], weight))
    return drafts


def _human(product: Product, wish: JsonObject) -> Draft | None:
    attributes = tuple(wish.get("instruction_attributes") or ())
    if not attributes:
        return None
    return product, wish["instruction"].strip("."), attributes, list(wish.get("instruction_options") or ()), 1.0


def _task(catalogue: Catalogue, draft: Draft, place: int) -> Task:
    product, text, attributes, options, weight = draft
    split = next(name for name, (start, end) in BOUNDS.items() if place >= start and (end is None or place < end))
    above = [10.0 * number for number in range(1, 100) if 10 * number > product.price][:4]
    drawn = generator("WebShop cap", product.asin, place).choice(len(above), 2, replace=False) if len(above) >= 2 else ()
    cap = max((above[int(i)] for i in drawn), default=NO_CAP)
    data = {"asin": product.asin, "attributes": list(attributes), "options": options, "cap": cap, "weight": weight}
    return Task((text + price_sentence(cap)).strip(), data, f"{split}/{place}", split)
