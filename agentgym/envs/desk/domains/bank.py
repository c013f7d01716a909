"""Service desk domain of a bank: card limits, replacement cards, disputed payments."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

SHOPS = (
    "Bluebird Books",
    "Corner Cafe",
    "Dart Fuel",
    "Evergreen Foods",
    "Fine Shoes",
    "Gadget Hall",
    "Hilltop Inn",
    "Ink and Co",
)
REASONS = ("lost", "stolen", "damaged")


class Bank(Domain):
    """Service desk of a bank, for cards."""

    company, noun, table, lister = "Granite Bank", "card", "cards", "list_cards"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "cards": "get_card", "payments": "get_payment"}
    searchers: ClassVar[Mapping[str, str]] = {"cards": "list_cards", "payments": "list_payments"}
    amounts = ("limit", "income", "amount", "fee")
    hint = "I do not have the number here. It is the {kind} card that I have had since {opened}."
    hint_fields = ("kind", "opened")
    intents: ClassVar[Mapping[str, Intent]] = {
        "limit": Intent(
            ("I would like a higher limit on a card.", "The limit of my card is too low."),
            {
                "limit": Topic(
                    r"\blimit\b|how (?:much|high)|\bamount\b", "the limit you would like", "I would like a limit of {}."
                )
            },
            charged=True,
        ),
        "replace": Intent(
            ("I need a new card.", "Please send me another card for an old one."),
            {
                "reason": Topic(
                    r"\bwhy\b|reason|what happened|\blost\b|stolen|damaged", "what happened to the card", "It was {}."
                )
            },
            charged=True,
        ),
        "dispute": Intent(
            ("There is a payment on my card that I did not make.", "Somebody paid with my card, and it was not me."),
            {
                "shop": Topic(
                    r"\bshop\b|merchant|\bstore\b|which payment|what payment|paid to|\bwhom?\b|\bwhere\b",
                    "to which shop it was paid",
                    "It says {}.",
                )
            },
        ),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "times": integer(rng, 15, 30, 5),
            "gold_times": integer(rng, 35, 60, 5),
            "raise_fee": integer(rng, 500, 2500, 50),
            "fees": {
                "lost": integer(rng, 500, 2000, 25),
                "stolen": integer(rng, 0, 500, 25),
                "damaged": integer(rng, 300, 1500, 25),
            },
            "window": integer(rng, 20, 60),
            "fraud": integer(rng, 20000, 40000, 100),
            "fraud_days": integer(rng, 3, 20),
        }

    def policy(self) -> str:
        r = self.r
        fees = ", ".join(f"{cents(fee)} for one that was {reason}" for reason, fee in r["fees"].items())
        return f"""\
Limits. The highest possible limit of a card is {r["times"]} % of the yearly income in the card's record \
({r["gold_times"]} % \
for gold customers), rounded down to the cent. Raising a limit costs {cents(r["raise_fee"])}; tell the customer. If the \
customer wants more than the highest possible limit, refuse, and tell the customer that limit.
New cards cost {fees}; gold customers pay $0.00 for one that was damaged. Tell the customer the fee.
Payments that the customer did not make. The amount is credited up to {r["window"]} days after the payment; tell the \
customer the amount. If it is too late, refuse, and tell the customer the last day on which it was possible. If the \
amount is \
above {cents(r["fraud"])}, do not credit it yourself: hand the card over to the fraud department, and tell the customer \
that \
it takes {r["fraud_days"]} days."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        cards: dict[str, Row] = {}
        payments: dict[str, Row] = {}
        for customer in customers:
            income = integer(rng, 1200000, 9000000, 10000)
            for _ in range(integer(rng, 2, 4)):
                card = code(rng, "K", cards)
                cards[card] = {
                    "customer_id": customer,
                    "kind": pick(rng, ("credit", "travel", "student")),
                    "income": income,
                    "opened": self.day(self.r["today"], -integer(rng, 100, 3000)).isoformat(),
                    "limit": integer(rng, 50000, 200000, 5000),
                    "status": "active",
                    "fee": 0,
                }
                for shop in rng.choice(SHOPS, min(3 + extra, len(SHOPS)), replace=False):
                    payments[code(rng, "T", payments, 6)] = {
                        "card_id": card,
                        "shop": str(shop),
                        "amount": integer(rng, 500, 60000),
                        "date": self.day(self.r["today"], -integer(rng, 1, 90)).isoformat(),
                        "status": "booked",
                    }
        return {"cards": cards, "payments": payments}

    @tool
    def list_cards(self, customer_id: str) -> str:
        """List a customer's cards."""
        return self.list("cards", customer_id=customer_id)

    @tool
    def get_card(self, card_id: str) -> str:
        """Show a card, with its owner's yearly income."""
        return self.show("cards", card_id)

    @tool
    def list_payments(self, card_id: str) -> str:
        """List the payments made with a card."""
        return self.list("payments", card_id=card_id)

    @tool
    def get_payment(self, payment_id: str) -> str:
        """Show a payment."""
        return self.show("payments", payment_id)

    @tool
    def set_limit(self, card_id: str, limit: float, fee: float) -> str:
        """Give a card another limit, for a fee; both in dollars."""
        self._active(card_id)
        self.db.change("cards", card_id, limit=to_cents(limit), fee=to_cents(fee))
        return f"The limit of {card_id} is {cents(to_cents(limit))} now."

    @tool
    def replace_card(self, card_id: str, reason: str, fee: float) -> str:
        """Block a card and send a new one; the reason is lost, stolen or damaged, the fee in dollars.

        Raises:
            Refused: the reason is not one of REASONS.
        """
        self._active(card_id)
        if reason.strip().lower() not in REASONS:
            raise Refused(f"The reason {reason[:40]!r} is not one of {', '.join(REASONS)}.")
        self.db.change("cards", card_id, status=f"replaced, {reason.strip().lower()}", fee=to_cents(fee))
        return f"{card_id} is blocked, and a new card is on its way."

    @tool
    def credit_payment(self, payment_id: str) -> str:
        """Pay back a payment that the customer did not make.

        Raises:
            Refused: the payment is credited already.
        """
        if self.db.peek("payments", payment_id)["status"] != "booked":
            raise Refused(f"{payment_id} is credited already.")
        self.db.change("payments", payment_id, status="credited")
        return f"{payment_id} is credited."

    def _active(self, card_id: str) -> None:
        status = self.db.peek("cards", card_id)["status"]
        if status != "active":
            raise Refused(f"{card_id} is {status}.")

    # Intents

    def draw_limit(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        ref = self.one(rng, mine)
        return ref, {
            "limit": cents(integer(rng, mine[ref]["limit"] + 10000, mine[ref]["limit"] + 3000000, 10000)) if ref else ""
        }

    def decide_limit(self, ref: str, ask: Ask) -> Decision:
        card = self.db.get("cards", ref)
        wish = ask("limit")
        share = self.r["gold_times" if self.gold(card) else "times"]
        highest, wished_limit = card["income"] * share // 100, int(wish.replace("$", "").replace(".", ""))
        if wished_limit > highest:
            return Decision(f"The limit of card {ref} can be at most {cents(highest)}", facts=(("money", cents(highest)),))
        fee = self.r["raise_fee"]
        return Decision(
            f"I can raise the limit of card {ref} to {wish} for a fee of {cents(fee)}",
            ("set_limit", {"card_id": ref, "limit": wished_limit / 100, "fee": fee / 100}),
            (("money", cents(fee)),),
            (wish,),
        )

    def draw_replace(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {"reason": pick(rng, REASONS)}

    def decide_replace(self, ref: str, ask: Ask) -> Decision:
        card, reason = self.db.get("cards", ref), ask("reason")
        fee = 0 if reason == "damaged" and self.gold(card) else self.r["fees"][reason]
        return Decision(
            f"I can block card {ref} and send you a new one for {cents(fee)}",
            ("replace_card", {"card_id": ref, "reason": reason, "fee": fee / 100}),
            (("money", cents(fee)),),
        )

    def draw_dispute(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        ref = self.one(rng, mine)
        shops = [row["shop"] for row in self.db.base["payments"].values() if row["card_id"] == ref]
        return ref, {"shop": pick(rng, shops) if ref else ""}

    def decide_dispute(self, ref: str, ask: Ask) -> Decision:
        shop = ask("shop")
        payment, row = next((k, row) for k, row in self.db.where("payments", card_id=ref).items() if row["shop"] == shop)
        last, amount = self.day(row["date"], self.r["window"]), cents(row["amount"])
        if last < self.today:
            text = f"The payment with card {ref} cannot be credited: the last day was {last}"
            return Decision(text, facts=(("date", last.isoformat()),))
        if row["amount"] > self.r["fraud"]:
            days = str(self.r["fraud_days"])
            text = f"The fraud department is looking into your card {ref}; that takes {days} days"
            return Decision(text, ("transfer_to_human", {"reference": ref, "department": "fraud"}), (("number", days),))
        return Decision(
            f"I can credit the payment to {shop} with card {ref}, that is {amount}",
            ("credit_payment", {"payment_id": payment}),
            (("money", amount),),
        )
