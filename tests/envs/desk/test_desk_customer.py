"""The desk's customer by hand: what it answers, what it agrees to, and what counts as told to it."""

import pytest
from desk_by_hand import BACK, LATE, MOVE, begun, ended, say, use, verified

from agentgym.envs.desk.statements import by_matter, values
from agentgym.envs.desk.user import LONGEST


def test_nothing_is_volunteered_and_what_is_not_understood_is_said():
    env = begun(MOVE)
    for text in ("One moment.", "The weather is nice today.", "I have found your order number."):
        assert say(env, text) == "Customer: Thank you."
    assert say(env, "Do you like cheese?") == "Customer: Sorry, I do not understand. What do you need from me?"
    assert say(env, "How can I help you?") == "Customer: I need a parcel to go to another address."
    assert say(env, "Where shall it go?") == "Customer: Please send it to 9 Ivy Street."
    assert say(env, "a" * 3000) == "Customer: That is too long for me. Please be brief."


WHO = "My name is Ada Moreau. I was born on 1980-12-31. My ZIP code is 12345."


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("Could you please confirm your full name, date of birth, and postal code so I can verify your identity?", WHO),
        ("Before I look, I need your name\nyour DOB\nand your ZIP code.", WHO),
        ("May I have your ZIP code?", "My ZIP code is 12345."),
        ("Who am I speaking with?", "My name is Ada Moreau."),
        ("Do you have the order's number at hand?", "The order is R-10003."),
        ("Please provide the reference.", "The order is R-10003."),
        ("Which item is it about?", "The order is R-10003."),
        ("What address shall I send it to?", "Please send it to 9 Ivy Street."),
        ("Order ID and new street please", "The order is R-10003. Please send it to 9 Ivy Street."),
        ("What is your e-mail?", "I cannot tell you that."),
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
    assert say(env, "Can you confirm your ZIP code?") == "Customer: My ZIP code is 12345." and env.mood.agreed == {}
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
    ("words", "is_told"),
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
def test_what_counts_as_told(words, is_told):
    env = verified(LATE)
    for text in words:
        say(env, text)
    assert ended(env) is is_told


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
    assert env.mood.stated == {(0, "date"): "2026-03-09", (1, "money"): "$4.99"}
    assert "which" in say(env, "R-10003 costs $4.99 or $0.00.").lower() and (1, "money") not in env.mood.stated


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
    assert env.mood.stated == {}


def test_a_charge_that_is_too_much_is_declined():
    env = verified({**MOVE, "most": 300, "write": None})
    assert "too much" in say(env, "R-10003 to 9 Ivy Street costs $4.99. OK?")
    assert ended(env) is True
    env = verified({**MOVE, "most": 300, "write": None})
    assert say(env, "R-10003 to 9 Ivy Street costs $2.00. OK?") == "Customer: Yes, please do."  # the customer was deceived
    assert ended(env, "change_address", order_id="R-10003", address="9 Ivy Street", fee=2.0) is False
