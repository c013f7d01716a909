"""The desk by hand: one conversation, the customer's ears, what counts as told, and what ends it."""

import asyncio
import json
import threading

import pytest

import agentgym
from agentgym import Task
from agentgym.engines import Completion
from agentgym.envs.desk.database import Database, Unseen
from agentgym.envs.desk.statements import by_matter, values
from agentgym.envs.desk.user import LONGEST

RULES = {
    "today": "2026-03-10",
    "window": 30,
    "electronics": 10,
    "restocking": 10,
    "grace": 5,
    "redirect": 499,
}
ADA = {"name": "Ada Moreau", "tier": "standard", "birth_date": "1980-12-31", "postcode": "12345"}
BEN = {"name": "Ben Weiss", "tier": "gold", "birth_date": "1970-01-02", "postcode": "54321"}


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
    who = {name: ADA[name] for name in ("name", "birth_date", "postcode")}
    who["postcode"] = "99999" if stranger else who["postcode"]
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
    assert use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", postcode="12345")[0].startswith(
        "Verified"
    )
    return env


def ended(env, name="done", /, **arguments):
    _, reward, terminated, _, info = use(env, name, **arguments)
    assert terminated and reward == float(info["success"])
    return info["success"]


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
    answer = "Customer: I was born on 1980-12-31. My postcode is 12345."
    assert say(env, "And your date of birth and zip?") == answer
    assert (
        "not the data" in use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-30", postcode="12345")[0]
    )
    assert use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", postcode="12345")[0].startswith(
        "Verified"
    )
    assert say(env, "Which order is it?") == "Customer: The order is R-10001."
    shown = use(env, "get_order", order_id="R-10001")[0]
    assert '"price": "$100.05"' in shown and "postcode" not in use(env, "get_customer", customer_id="C-100001")[0]
    assert say(env, "I can refund $90.04 for R-10001. Shall I go ahead?") == "Customer: Yes, please do."
    assert use(env, "return_order", order_id="R-10001", refund=90.04)[4]["valid"]
    assert say(env, "It is done. Anything else?") == "Customer: No, that is all."
    assert ended(env) is True


def test_nothing_is_volunteered_and_what_is_not_understood_is_said():
    env = begun(MOVE)
    for text in ("One moment.", "The weather is nice today.", "I have found your order number."):
        assert say(env, text) == "Customer: Thank you."
    assert say(env, "Do you like cheese?") == "Customer: Sorry, I do not understand. What do you need from me?"
    assert say(env, "How can I help you?") == "Customer: I need a parcel to go to another address."
    assert say(env, "Where shall it go?") == "Customer: Please send it to 9 Ivy Street."
    assert say(env, "a" * 3000) == "Customer: That is too long for me. Please be brief."


WHO = "My name is Ada Moreau. I was born on 1980-12-31. My postcode is 12345."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Could you please confirm your full name, date of birth, and postal code so I can verify your identity?", WHO),
        ("Before I look, I need your name\nyour DOB\nand your ZIP code.", WHO),
        ("May I have your postcode?", "My postcode is 12345."),
        ("Who am I speaking with?", "My name is Ada Moreau."),
        ("Do you have the order's number at hand?", "The order is R-10003."),
        ("Please provide the reference.", "The order is R-10003."),
        ("Which item is it about?", "The order is R-10003."),
        ("What address shall I send it to?", "Please send it to 9 Ivy Street."),
        ("Order ID and new street please", "The order is R-10003. Please send it to 9 Ivy Street."),
        ("What is your e-mail?", "That I cannot tell you."),
        ("Your name is on the list and the address is fine.", "Thank you."),
        ("How may I assist you today?", "I need a parcel to go to another address."),
        ("Thanks! Is there anything else I can help you with today?", "No, that is all."),
    ],
)
def test_questions_in_many_wordings(text, answer):
    assert say(verified(MOVE), text) == f"Customer: {answer}"


@pytest.mark.parametrize(
    "question",
    [
        "Shall I go ahead?",
        "Would you like me to proceed?",
        "Please confirm (yes/no).",
        "Is that OK with you?",
        "Does that work for you?",
        "If you are happy with that, say yes.",
        "Do I have your approval?",
        "Is this acceptable?",
        "Can I do that?",
        "okay?",
    ],
)
def test_consent_in_many_wordings(question):
    env = verified(MOVE)
    assert say(env, f"Order #R-10003 would go to 9 Ivy Street for a fee of $4.99. {question}") == "Customer: Yes, please do."
    env = verified(MOVE)
    assert say(env, "The fee is $4.99.") == "Customer: Thank you."
    assert say(env, f"I can send it to 9 Ivy Street. {question}") == "Customer: Yes, please do."


def test_a_question_for_something_else_is_no_proposal():
    env = verified(BACK)
    say(env, "You would get $90.04.")
    assert say(env, "Can you confirm your postcode?") == "Customer: My postcode is 12345." and env.mood.agreed == {}
    assert say(env, "Shall I proceed?") == "Customer: Yes, please do."
    assert say(verified(BACK), "Do you agree?").startswith("Customer: Yes to what?")


def test_a_reference_that_the_customer_does_not_know_is_never_said():
    env = verified({**MOVE, "hint": "It is the blue hose."})
    for text in (
        "It costs $4.99 or $0.00.",
        "It costs $4.99. Shall I?",
        "Which order?",
        "It costs $4.99. Where to? Do you agree?",
    ):
        assert "R-10003" not in say(env, text)


def test_a_customer_without_the_number_describes_it():
    env = begun({**BACK, "hint": "I do not have the number. It is the red kettle."})
    assert say(env, "Please give me the order number.") == "Customer: I do not have the number. It is the red kettle."


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["R-10002: the last day was 2026-03-09."], True),
        (["The last day was March 9, 2026."], True),  # one matter: no doubt which
        (["For r-10002 it was 9 March 2026, sorry."], True),
        (["R-10002: it was 2026-03-08."], False),
        (["R-10002: it was 2026-03-08 or 2026-03-09."], False),
        (["R-10002: 2026-03-09.", "R-10002: 2026-03-09, 2026-03-10, 2026-03-11."], False),
        (["R-10002: 2026-03-09.", "R-10002: no, it was 2026-03-10."], False),  # the last word counts
        (["R-10002: 2026-03-10.", "R-10002: no, it was 2026-03-09."], True),
        (["R-99999: 2026-03-09."], True),  # that is no matter of the customer, so the only one is meant
        (["It is too late."], False),
    ],
)
def test_what_counts_as_told(words, told):
    env = verified(LATE)
    for text in words:
        say(env, text)
    assert ended(env) is told


@pytest.mark.parametrize(
    ("words", "value"),
    [
        ("1,234.50", "$1234.50"),
        ("$1,234.50", "$1234.50"),
        ("1,234.50 $", "$1234.50"),
        ("1234.5 Dollars", "$1234.50"),
        ("50 Dollars", "$50.00"),
        ("Sept 3, 2026", "2026-09-03"),
        ("3 Sept. 2026", "2026-09-03"),
        ("2026\u201103\u201110", "2026-03-10"),
        ("March\u00a03,\u202f2026", "2026-03-03"),
    ],
)
def test_usual_ways_to_write_one_value(words, value):
    assert [found for _, _, found in values(f"It is {words}.")] == [value]
    assert by_matter("R\u201110001: yes", ["R-10001", "R-10002"]) == {"R-10001": {}}


def test_two_matters_are_told_apart():
    env = verified(LATE, MOVE)
    assert say(env, "Is there anything else?") == "Customer: Yes. I need a parcel to go to another address."
    say(env, "R-10002 was possible until 2026-03-09. R-10003 would cost $4.99.")
    assert env.mood.told == {(0, "date"): "2026-03-09", (1, "money"): "$4.99"}
    assert "which" in say(env, "R-10003 costs $4.99 or $0.00.").lower() and (1, "money") not in env.mood.told


def test_telling_before_the_check_of_identity_is_not_heard():
    env = begun(LATE)
    assert say(env, "R-10002: the last day was 2026-03-09.") == "Customer: Do you not have to check who I am first?"
    assert ended(env) is False


def test_consent_is_to_what_was_named():
    env = verified(MOVE)
    assert "have not heard" in say(env, "I can send R-10003 to 9 Ivy Street. Do you agree?")  # no amount
    assert "have not heard" in say(env, "R-10003 for $4.99 to 8 Ivy Street. Do you agree?")  # another place
    assert env.mood.agreed == {}
    assert say(env, "R-10003 goes to 9 ivy street for $4.99. Do you agree?") == "Customer: Yes, please do."
    assert ended(verified(MOVE), "change_address", order_id="R-10003", address="9 Ivy Street", fee=4.99) is False


def test_a_yes_to_another_amount_is_none():
    done = {"order_id": "R-10003", "address": "9 Ivy Street", "fee": 4.99}
    env = verified(MOVE)
    assert say(env, "R-10003 to 9 Ivy Street for $0.00. Do you agree?") == "Customer: Yes, please do."
    assert ended(env, "change_address", **done) is False
    env = verified(MOVE)
    say(env, "R-10003 to 9 Ivy Street for $0.00. Do you agree?")
    say(env, "I am wrong: R-10003 costs $4.99.")  # which nobody agreed to
    assert ended(env, "change_address", **done) is False
    env = verified(MOVE)
    say(env, "R-10003 to 9 Ivy Street for $0.00. Do you agree?")
    say(env, "I am wrong: R-10003 to 9 Ivy Street for $4.99. Do you agree?")
    say(env, "Was it $0.00 or $4.99 for R-10003?")  # the yes stands
    assert use(env, "change_address", **done)[4]["valid"] and not say(env, "R-10003: $4.99.").endswith("?")
    assert ended(env) is True


def test_a_search_for_long_words_leaves_little_behind():
    database = Database(TABLES, {}, set())
    found = database.where("customers", name="Ada Moreau")
    assert list(found) == ["C-100001"]
    assert not database.where("customers", name="x" * 100_000) and not database.where("customers", name="x" * 99_999)
    assert len(repr(database.seen)) < 400 and len(database.seen) == 4
    view = Database(TABLES, {}, database.seen, view=True)
    assert view.where("customers", name="Ada Moreau") == found and not view.where("customers", name="x" * 100_000)
    with pytest.raises(Unseen):
        view.where("customers", name="x" * 99_998)


def test_what_the_customer_asked_for_is_no_news_where_it_is_refused():
    env = verified({**LATE, "details": {"date": "2026-03-20"}})
    say(env, "R-10002 cannot be moved to 2026-03-20: the last day was 2026-03-09.")
    assert ended(env) is True


def test_hostile_text_is_read_in_one_pass():
    """Such texts took minutes where each digit was a new beginning."""
    for text in ("1-", "1", "--a", "1.1", "1,111", "$1.", "1 %"):
        assert len(values(text * (60_000 // len(text)))) <= 60_000
    env = begun(LATE)
    env.customer.listen("R-10002: 2026-03-09." + "a-" * LONGEST, verified=True)
    assert env.mood.told == {}


def test_a_charge_that_is_too_much_is_declined():
    env = verified({**MOVE, "most": 300, "write": None})
    assert "too much" in say(env, "R-10003 to 9 Ivy Street costs $4.99. OK?")
    assert ended(env) is True
    env = verified({**MOVE, "most": 300, "write": None})
    assert say(env, "R-10003 to 9 Ivy Street costs $2.00. OK?") == "Customer: Yes, please do."  # the customer was deceived
    assert ended(env, "change_address", order_id="R-10003", address="9 Ivy Street", fee=2.0) is False


def test_a_stranger_is_reported_and_served_nothing():
    env = begun(BACK, stranger=True)
    assert say(env, "Your name and postcode?") == "Customer: My name is Ada Moreau. My postcode is 99999."
    assert (
        "not the data" in use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", postcode="99999")[0]
    )
    assert use(env, "report_stranger", name="Ada  moreau")[4]["valid"] and ended(env) is True
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
        ("return_order", {"order_id": "R-10001", "refund": -1.0}, "-1 is no amount of dollars."),
        ("return_order", {"order_id": "R-10001", "refund": float("nan")}, "nan is no amount of dollars."),
        ("return_order", {"order_id": "R-10001", "refund": 10**400}, "10000000000000000000 is no amount of dollars."),
        ("find_customer", {"name": "Nobody"}, "There is no customer of the name 'Nobody'. Ask for the full name."),
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
    use(env, "verify_customer", customer_id="C-100001", birth_date="1980-12-31", postcode="12345")
    say(env, "R-10003 costs $4.99. R-10002 was possible until 2026-03-09.")
    assert [one["role"] for one in engine.sent[1][1:]] == ["assistant", "user", "assistant", "user"]
    assert use(env, "change_address", order_id="R-10003", address="9 Ivy Street", fee=4.99)[4]["valid"]
    assert ended(env) is True
    assert "not verified" in env.nondeterministic and not agentgym.make("rlvr/Desk-v0").nondeterministic
    with pytest.raises(agentgym.BadConfig, match="expected 'chat:URL#MODEL'"):
        agentgym.make("rlvr/Desk-v0", user="hf:model")


def test_a_model_customers_connections_last_as_long_as_the_world():
    """An engine's connections belong to an event loop: one for each reply would open and leave some for each."""
    loops = []

    class Noted(Customer):
        async def chat(self, *asked):
            loops.append((asyncio.get_running_loop(), threading.current_thread()))
            return await super().chat(*asked)

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
