"""The desk by hand: one conversation, the policy, what ends it, and a customer that a model plays."""

import asyncio
import threading

import pytest
from desk_by_hand import BACK, LATE, MOVE, TABLES, begun, ended, matter, say, use, verified

import agentgym
from agentgym.engines import Completion
from agentgym.envs.desk.database import Database, NotShownYet


def test_the_policy_decides_as_by_hand():
    for one in (BACK, LATE, MOVE):
        env = begun(one)
        decision = getattr(env.domain, f"decide_{one['intent']}")(one["ref"], one["details"].__getitem__)
        assert [list(fact) for fact in decision.facts] == one["facts"]
        assert (list(decision.write) if decision.write else None) == one["write"]
    gold = begun(BACK).domain.decide_return("R-10004", str)  # five days more, and no fee
    assert gold.facts == (("money", "$100.05"),)


def test_a_conversation_by_hand():
    env = begun(BACK)
    assert env.observation.endswith("Customer: Hello. I want to send something back.")
    assert say(env, "Hello! What is your full name, please?") == "Customer: My name is Ada Moreau."
    assert use(env, "find_customer", name="ada  moreau")[0] == "C-100001: Ada Moreau"
    answer = "Customer: I was born on 1980-12-31. My ZIP code is 12345."
    assert say(env, "And your date of birth and zip?") == answer
    assert (
        "do not match" in use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-30", zip_code="12345")[0]
    )
    assert use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", zip_code="12345")[0].startswith(
        "Verified"
    )
    assert say(env, "Which order is it?") == "Customer: The order is R-10001."
    order = use(env, "get_order", order_id="R-10001")[0]
    assert '"price": "$100.05"' in order and "zip_code" not in use(env, "get_customer", customer_id="C-100001")[0]
    assert say(env, "I can refund $90.04 for R-10001. Shall I go ahead?") == "Customer: Yes, please do."
    assert use(env, "return_order", order_id="R-10001", refund=90.04)[4]["valid"]
    assert say(env, "It is done. Anything else?") == "Customer: No, that is all."
    assert ended(env) is True


def test_a_search_for_long_words_leaves_little_behind():
    database = Database(TABLES, {}, set())
    found = database.where("customers", name="Ada Moreau")
    assert list(found) == ["C-100001"]
    assert not database.where("customers", name="x" * 100_000) and not database.where("customers", name="x" * 99_999)
    assert len(repr(database.seen)) < 400 and len(database.seen) == 4
    view = Database(TABLES, {}, database.seen, view=True)
    assert view.where("customers", name="Ada Moreau") == found and not view.where("customers", name="x" * 100_000)
    with pytest.raises(NotShownYet):
        view.where("customers", name="x" * 99_998)


def test_a_stranger_is_reported_and_served_nothing():
    env = begun(BACK, stranger=True)
    assert say(env, "Your name and ZIP code?") == "Customer: My name is Ada Moreau. My ZIP code is 99999."
    assert (
        "do not match" in use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", zip_code="99999")[0]
    )
    assert use(env, "report_stranger", name="Ada  moreau")[4]["valid"] and ended(env) is True
    assert env.info()["metrics"] == {"told": 1.0, "changed": 1.0}  # nothing had to be told
    assert ended(begun(BACK, stranger=True)) is False
    assert ended(begun(BACK), "report_stranger", name="Ada Moreau") is False  # she is who she says
    for name in ("expert", "oracle"):
        env = begun(BACK, stranger=True)
        while env.success is None:
            env.step(next(getattr(env, name)()))
        assert env.success


def test_changes_that_nobody_wanted_end_the_episode():
    yes = "R-10001: $90.04. Do you agree?"
    env = verified(BACK)
    say(env, yes)
    assert ended(env, "return_order", order_id="R-10001", refund=90.05) is False
    env = verified(BACK)
    say(env, yes)
    assert ended(env, "return_order", order_id="R-10004", refund=100.05) is False  # somebody else's
    env = begun(BACK)
    assert ended(env, "return_order", order_id="R-10001", refund=90.04) is False  # nobody was checked
    assert ended(verified(LATE), "transfer_to_human", reference="R-10002", department="returns") is False
    env = verified(BACK)
    say(env, yes)
    use(env, "return_order", order_id="R-10001", refund=90.04)
    assert ended(env, "cancel_order", order_id="R-10003") is False  # too much of a good thing


def test_handing_over_needs_no_yes_but_the_check_of_identity():
    handed = matter(
        "return", "R-10002", ["transfer_to_human", {"reference": "R-10002", "department": "returns"}], [["number", "3"]]
    )
    env = verified(handed)
    assert use(env, "transfer_to_human", reference="R-10002", department=" Returns")[4]["valid"]
    say(env, "R-10002: the department returns needs three days.")
    assert ended(env) is True
    assert ended(begun(handed), "transfer_to_human", reference="R-10002", department="returns") is False
    assert ended(verified(handed), "transfer_to_human", reference="R-10002", department="sales") is False


def test_calls_that_cannot_be_carried_out_are_answered_and_change_nothing():
    env = verified(BACK)
    for name, arguments, words in (
        ("return_order", {"order_id": "R-10003", "refund": 1.0}, "R-10003 is pending, not delivered."),
        ("return_order", {"order_id": "R-1", "refund": 1.0}, "There is no 'R-1' among the orders."),
        ("return_order", {"order_id": "R-10001", "refund": -1.0}, "-1 is not an amount in dollars."),
        ("return_order", {"order_id": "R-10001", "refund": float("nan")}, "a number that is not finite"),
        ("return_order", {"order_id": "R-10001", "refund": 10**400}, "10000000000000000000 is not an amount in dollars."),
        ("find_customer", {"name": "Nobody"}, "There is no customer named 'Nobody'. Ask for the full name."),
        ("cancel_flight", {}, "there is no tool 'cancel_flight'"),
    ):
        observation, _, terminated, _, info = use(env, name, **arguments)
        assert words in observation and not info["valid"] and not terminated
    assert env.changes == {}


def test_tools_are_those_of_the_tasks_domain_also_after_a_restore():
    env = agentgym.make("rlvr/Desk-v0")
    env.reset(options={"task": agentgym.make("rlvr/Desk-v0", domains="bank").numbered(0)})
    assert "set_limit" in env.tools and "return_order" not in env.tools and next(iter(env.tools)) == "say"
    state = env.snapshot()
    env.reset(options={"task": agentgym.make("rlvr/Desk-v0", domains="clinic").numbered(0)})
    assert "set_limit" not in env.tools and "move_appointment" in env.tools
    assert "set_limit" in env.restore(state).tools
    with pytest.raises(LookupError, match="Did you mean 'airline'"):
        agentgym.make("rlvr/Desk-v0", domains="airlin")


class Customer:
    """A chat engine that says what it was asked, and keeps what it was sent."""

    def __init__(self):
        self.sent = []

    async def chat(self, messages, tools, sampling, session):
        self.sent.append(messages)
        return Completion([], [], "stop", text=f"You said:\n{messages[-1]['content']}")


def test_a_customer_that_a_model_plays():
    engine = Customer()
    env = agentgym.make("rlvr/Desk-v0", user=engine)
    env.reset(seed=0, options={"task": begun(MOVE, LATE).task})
    assert env.observation.endswith("Customer: Hello. I need a parcel to go to another address.")
    assert say(env, "Which order?") == "Customer: You said: Which order?"
    system, *talk = engine.sent[0]
    assert "The order is R-10003. Please send it to 9 Ivy Street." in system["content"] and "$4.99" not in system["content"]
    assert [one["role"] for one in talk] == ["assistant", "user"]
    use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", zip_code="12345")
    say(env, "R-10003 costs $4.99. R-10002 was possible until 2026-03-09.")
    assert [one["role"] for one in engine.sent[1][1:]] == ["assistant", "user", "assistant", "user"]
    assert use(env, "change_address", order_id="R-10003", address="9 Ivy Street", fee=4.99)[4]["valid"]
    assert ended(env) is True
    assert "not verified" in env.declared.nondeterministic
    assert not agentgym.make("rlvr/Desk-v0").declared.nondeterministic
    with pytest.raises(agentgym.BadConfig, match="expected 'chat:URL#MODEL'"):
        agentgym.make("rlvr/Desk-v0", user="hf:model")


def test_a_model_customers_connections_last_as_long_as_the_environment():
    """An engine's connections belong to an event loop: one for each reply would open and leave some for each."""
    loops = []

    class Noted(Customer):
        async def chat(self, *args):
            loops.append((asyncio.get_running_loop(), threading.current_thread()))
            return await super().chat(*args)

    env = agentgym.make("rlvr/Desk-v0", user=Noted())
    env.reset(seed=0)
    say(env, "Which order?")
    say(env, "Which order?")
    assert loops[0] == loops[1]
    env.close()
    loop, thread = loops[0]
    assert loop.is_closed() and not thread.is_alive()
    assert say(env, "And now?") == "Customer: You said: And now?"
    env.close()
