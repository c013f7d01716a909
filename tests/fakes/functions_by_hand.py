"""Requests, tables and calls of Functions by hand."""

import json

import agentgym
from agentgym import Task
from agentgym.envs.functions import catalog
from agentgym.envs.functions.services import SERVICES

ID = "rlvr/Functions-v0"
TABLES = {
    "calendar": {
        "E-101": {"title": "Team lunch", "day": "2026-03-04", "time": "12:00", "room": "Oak"},
        "E-102": {"title": "Team call", "day": "2026-03-05", "time": "09:30", "room": "Elm"},
    },
    "bank": {"A-201": {"title": "Tax fund", "limit": 500, "alerts": "off", "balance": 900}},
    "billing": {"I-301": {"title": "Rent bill", "due": "2026-02-01", "category": "office", "amount": 120}},
}
MOVE = {"text": "Set the room of the event 'Team call' to Pine.", "ops": [["set", "calendar", "E-102", "room", "Pine"]]}
PAY = {
    "text": "Pay the invoice 'Rent bill' in full from the account 'Tax fund'.",
    "ops": [["pay", "billing", "I-301", "A-201", 120]],
    "needs": [["billing", "I-301"]],
}
LOOK = {
    "text": "If the room of the event 'Team call' is Elm, set its time to 10:00; otherwise set it to 11:00.",
    "ops": [["set", "calendar", "E-102", "time", "10:00"]],
    "needs": [["calendar", "E-102"]],
}
ADD = {
    "text": "Create a new event 'Hiring demo' with day 2026-05-06, time 08:00, room Elm.",
    "ops": [["create", "calendar", {"title": "Hiring demo", "day": "2026-05-06", "time": "08:00", "room": "Elm"}]],
}
ASK = {
    "text": "Change the time of the event 'Team lunch'.",
    "ops": [["set", "calendar", "E-101", "time", "13:15"]],
    "asks": {"field": "time", "ref": "'Team lunch'", "value": "13:15"},
}
DROP = {"text": "Delete the event 'Team lunch'.", "ops": [["delete", "calendar", "E-101"]]}
WHICH = {"text": "Tell me the day of the event 'Team call'.", "ops": [], "answer": "2026-03-05"}
EVERYTHING = [(*meaning, 0) for name in TABLES for meaning in catalog.meanings(SERVICES[name])]


def begun(*requests, functions=EVERYTHING, obstacles=(), **options):
    requests = [{"needs": [], "asks": None, "answer": "", "missing": False, **request} for request in requests]
    data = {
        "tables": TABLES,
        "requests": requests,
        "obstacles": {"locked": [], "busy": {}, "sign_in": [], "refused": [], **dict(obstacles)},
        "functions": functions,
        "targets": [],
        "attack": None,
    }
    env = agentgym.make(ID, **options)
    env.reset(seed=0, options={"task": Task("…", data, "train/0/0", "train")})
    return env


def use(env, tool, /, **arguments):
    return env.step(json.dumps({"name": tool, "arguments": arguments}))


def ended(env, tool="finish", /, **arguments):
    *_, terminated, _, info = use(env, tool, **(arguments or {"message": "done"}))
    return info["success"] if terminated else "not over"
