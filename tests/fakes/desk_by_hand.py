"""A desk with one customer and four orders, written by hand, and the words to play it with."""

import json

import agentgym
from agentgym import Task

RULES = {
    "today": "2026-03-10",
    "window": 30,
    "electronics": 10,
    "restocking": 10,
    "grace": 5,
    "redirect": 499,
}
ADA = {"name": "Ada Moreau", "tier": "standard", "birth_date": "1980-12-31", "zip_code": "12345"}
BEN = {"name": "Ben Weiss", "tier": "gold", "birth_date": "1970-01-02", "zip_code": "54321"}


def order(customer, status, delivered=None, **fields):
    return {
        "customer_id": customer,
        "item": "red kettle",
        "category": "kitchen",
        "price": 10005,
        "status": status,
        "ordered": "2026-02-01",
        "shipped": None if status == "pending" else "2026-02-03",
        "delivered": delivered,
        "address": "1 Elm Street, Ashford",
        "refund": 0,
        "fee": 0,
        **fields,
    }


TABLES = {
    "customers": {"C-100001": ADA, "C-100002": BEN},
    "handovers": {},
    "strangers": {},
    "orders": {
        "R-10001": order("C-100001", "delivered", "2026-02-08"),  # the thirtieth day is 2026-03-10, today
        "R-10002": order("C-100001", "delivered", "2026-02-07"),
        "R-10003": order("C-100001", "pending", item="blue hose"),
        "R-10004": order("C-100002", "delivered", "2026-02-08"),
    },
}


def matter(intent, ref, write, facts, **more):
    blank = {"wording": 0, "label": intent, "hint": "", "details": {}, "most": None, "choices": [], "text": ""}
    return {**blank, "intent": intent, "ref": ref, "write": write, "facts": facts, **more}


# 10005 cents less 10 % is 9004.5, rounded down.
BACK = matter("return", "R-10001", ["return_order", {"order_id": "R-10001", "refund": 90.04}], [["money", "$90.04"]])
LATE = matter("return", "R-10002", None, [["date", "2026-03-09"]])
MOVE = matter(
    "address",
    "R-10003",
    ["change_address", {"order_id": "R-10003", "address": "9 Ivy Street", "fee": 4.99}],
    [["money", "$4.99"]],
    details={"address": "9 Ivy Street"},
    choices=["9 Ivy Street"],
)


def begun(*matters, stranger=False):
    who = {name: ADA[name] for name in ("name", "birth_date", "zip_code")}
    who["zip_code"] = "99999" if stranger else who["zip_code"]
    data = {
        "domain": "retail",
        "rules": RULES,
        "tables": TABLES,
        "customer": "C-100001",
        "who": who,
        "stranger": stranger,
        "manner": 0,
        "matters": list(matters),
        "references": [],
    }
    env = agentgym.make("rlvr/Desk-v0")
    env.reset(seed=0, options={"task": Task(data=data, id="mine")})
    return env


def say(env, text):
    return env.step(json.dumps({"name": "say", "arguments": {"text": text}}))[0]


def use(env, name, /, **arguments):
    return env.step(json.dumps({"name": name, "arguments": arguments}))


def verified(*matters):
    env = begun(*matters)
    assert use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", zip_code="12345")[0].startswith(
        "Verified"
    )
    return env


def ended(env, name="done", /, **arguments):
    _, reward, terminated, _, info = use(env, name, **arguments)
    assert terminated and reward == float(info["success"])
    return info["success"]
