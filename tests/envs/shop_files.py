"""WebShop's files, made from the shop's own catalogue."""

import json
from pathlib import Path

from agentgym.envs.shop.catalogue import Product
from agentgym.envs.shop.generate import SIZE, catalogue


def write(folder: Path, count: int = 700) -> Path:
    """Write products and wishes in the form of WebShop's files and return the folder."""
    products = catalogue(SIZE).products[:count]
    items = [
        {
            "asin": product.asin,
            "name": product.title,
            "category": product.category,
            "query": product.query,
            "product_category": product.product_category,
            "full_description": product.description,
            "small_description": list(product.bullets),
            "pricing": product.price_tag.replace(" to ", ""),
            "customization_options": {
                name.title(): [{"value": value, "image": ""} for value in values] for name, values in product.options.items()
            },
        }
        for product in products
    ]
    wishes = {
        product.asin: {
            "attributes": list(product.attributes),
            "instruction": f"i need {product.attributes[0]} {product.query}.",
            "instruction_attributes": list(product.attributes[:2]),
        }
        for product in products
    }
    human = {asin: [{**wish, "instruction_options": []}] for asin, wish in wishes.items()}
    for name, content in (("items_shuffle", items), ("items_ins_v2", wishes), ("items_human_ins", human)):
        (folder / f"{name}.json").write_text(json.dumps(content), encoding="utf-8")
    return folder


def product(**changes):
    """Return a cup, but for the changes."""
    options = {"asin": "B0AAAAAAAA", "title": "Steel Travel Cup", "category": "kitchen", "query": "cups"}
    options |= {"product_category": "Home › Kitchen › Cups", "description": "", "bullets": (), "price": 12.0}
    return Product(**{**options, "price_tag": "$12.0", "attributes": ("leak proof", "double wall"), **changes})
