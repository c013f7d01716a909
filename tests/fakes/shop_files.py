"""WebShop's files, made from the shop's own catalogue."""

import json
from pathlib import Path

from agentgym.envs.shop.catalogue import Product
from agentgym.envs.shop.generate import SIZE, catalogue

CUP = {
    "asin": "B09ABCDEFG",
    "name": "Travel Cup Double Wall",
    "category": "kitchen",
    "query": "Cups",
    "product_category": "Home & Kitchen › Kitchen & Dining › Cups",
    "full_description": "Keeps drinks warm.",
    "small_description": ["Dishwasher safe.", "Leak proof."],
    "pricing": "$12.5$20.0",
    "customization_options": {
        "Color": [{"value": " Blue ", "image": ""}, {"value": "Red", "image": ""}],
        "size": [{"value": "12 oz", "image": ""}],
        "style": None,
    },
}
MUG = {**CUP, "asin": "B0MUG00000", "name": "Plain Mug", "pricing": "$8.00", "customization_options": {}, "query": "mugs"}
LAMP = {
    **CUP,
    "asin": "B0LAMP0000",
    "name": "Desk Lamp",
    "pricing": "",
    "query": "lamps",
    "product_category": "Home › Lights",
}
WISHES = {
    "B09ABCDEFG": {
        "attributes": ["double wall", "leak proof"],
        "instruction": "i want a travel cup that is leak proof.",
        "instruction_attributes": ["leak proof", "double wall"],
    },
    "B0MUG00000": {"attributes": ["dishwasher safe"], "instruction": "a mug", "instruction_attributes": ["dishwasher safe"]},
}
HUMAN = {
    "B09ABCDEFG": [
        {"instruction": "I like a blue cup.", "instruction_attributes": ["leak proof"], "instruction_options": ["blue"]},
        {"instruction": "no attributes", "instruction_attributes": [], "instruction_options": []},
    ]
}


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
