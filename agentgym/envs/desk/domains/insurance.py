"""Service desk domain of an insurance company: claims, contract terminations, drivers."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

KINDS = ("home", "car", "bicycle")
THINGS = {
    "home": ("flat", "house", "cabin"),
    "car": ("saloon", "van", "estate car"),
    "bicycle": ("racing bicycle", "city bicycle"),
}


class Insurance(Domain):
    """Service desk of an insurance company."""

    company, noun, table, lister = "Beacon Insurance", "contract", "contracts", "list_contracts"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "contracts": "get_contract"}
    searchers: ClassVar[Mapping[str, str]] = {"contracts": "list_contracts"}
    amounts = ("premium", "deductible", "cap", "payout", "refund", "add_on")
    hint = "I do not have the number. It is the contract for my {thing} that began on {start}."
    hint_fields = ("thing", "start")
    intents: ClassVar[Mapping[str, Intent]] = {
        "claim": Intent(
            ("I had an accident and want you to pay for it.", "Something that I insured with you was damaged."),
            {
                "day": Topic(r"\bdates?\b(?! of birth)|\bday\b|\bwhen\b", "the day of the damage", "It happened on {}."),
                "amount": Topic(
                    r"how much|\bamount\b|\bcosts?\b|repair|\bsum\b|value|estimate",
                    "the amount of the damage",
                    "The repair costs {}.",
                ),
            },
        ),
        "cancel": Intent(("I want to end a contract.", "I do not need one of my insurances any longer.")),
        "driver": Intent(
            ("I would like somebody else to be allowed to drive my car.", "Please add a driver to my contract."),
            {"age": Topic(r"\bage\b|how old|\bold\b|years", "the age of the driver", "The driver is {} years old.")},
            charged=True,
        ),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "window": integer(rng, 8, 45),
            "adjust": integer(rng, 400000, 700000, 1000),
            "adjust_days": integer(rng, 4, 25),
            "fee": integer(rng, 1000, 6000, 50),
            "youngest": integer(rng, 18, 20),
            "young": integer(rng, 23, 27),
            "young_price": integer(rng, 9000, 30000, 100),
            "old_price": integer(rng, 1000, 6000, 100),
            "gold": integer(rng, 10, 50, 5),
        }

    def policy(self) -> str:
        r = self.r
        return f"""\
Claims. Damage must be reported at most {r["window"]} days after it happened: otherwise refuse, and tell the customer the \
last day on which it could be reported. The payout is the damage less the contract's deductible, at most the contract's \
cap. \
Nothing is paid if the damage is not above the deductible: refuse, and tell the customer the deductible. Tell the customer \
the payout, and file the claim. Payouts above {cents(r["adjust"])} are not filed here: hand the contract over to the \
adjusters department, \
and tell the customer that it takes {r["adjust_days"]} days.
Ending a contract. A contract can be ended as of today. The refund is the yearly premium times the days left until the \
contract's end, divided by 365 and rounded down to the cent, less a fee of {cents(r["fee"])} (never less than $0.00); gold \
customers pay no fee. Tell the customer the refund. Bicycle contracts cannot be ended early: refuse, and tell the customer \
the day on which the contract ends.
Drivers aged {r["youngest"]} or over can be added to a car contract: refuse younger ones, and tell the customer that age. \
The price is {cents(r["young_price"])} for drivers under {r["young"]} and {cents(r["old_price"])} for others; gold \
customers \
pay {r["gold"]} % less, rounded down to the cent. Tell the customer the price."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        contracts: dict[str, Row] = {}
        for customer in customers:
            for _ in range(integer(rng, 3, 4 + min(extra, 4))):
                kind, left = pick(rng, KINDS), integer(rng, 5, 270)
                end = self.day(self.r["today"], left)
                contracts[code(rng, "Q", contracts)] = {
                    "customer_id": customer,
                    "kind": kind,
                    "thing": pick(rng, THINGS[kind]),
                    "start": self.day(end.isoformat(), -365).isoformat(),
                    "end": end.isoformat(),
                    "premium": integer(rng, 8000, 90000),
                    "deductible": integer(rng, 10000, 60000, 5000),
                    "cap": integer(rng, 300000, 900000, 10000),
                    "status": "running",
                    "payout": 0,
                    "refund": 0,
                    "driver_age": None,
                    "add_on": 0,
                }
        return {"contracts": contracts}

    @tool
    def list_contracts(self, customer_id: str) -> str:
        """List a customer's contracts."""
        return self.list("contracts", customer_id=customer_id)

    @tool
    def get_contract(self, contract_id: str) -> str:
        """Show a contract; its premium is that of a year."""
        return self.show("contracts", contract_id)

    @tool
    def file_claim(self, contract_id: str, payout: float) -> str:
        """File a claim under a contract, with its payout in dollars.

        Raises:
            Refused: the payout exceeds the contract's cap.
        """
        if to_cents(payout) > self._running(contract_id)["cap"]:
            raise Refused("The payout is above the contract's cap.")
        self.db.change("contracts", contract_id, payout=to_cents(payout))
        return f"A claim under {contract_id} is filed; {cents(to_cents(payout))} will be paid."

    @tool
    def end_contract(self, contract_id: str, refund: float) -> str:
        """End a contract today and pay the refund, in dollars.

        Raises:
            Refused: the refund exceeds the premium.
        """
        if to_cents(refund) > self._running(contract_id)["premium"]:
            raise Refused("The refund is above the premium.")
        self.db.change("contracts", contract_id, status="ended", refund=to_cents(refund))
        return f"{contract_id} is ended."

    @tool
    def add_driver(self, contract_id: str, age: int, price: float) -> str:
        """Add a driver to the contract of a car, for a price in dollars.

        Raises:
            Refused: the contract is not a car's, or the age is implausible.
        """
        if self._running(contract_id)["kind"] != "car" or not 0 < age < 120:
            raise Refused(f"A driver of {age} years cannot be added to {contract_id}; drivers belong to cars.")
        self.db.change("contracts", contract_id, driver_age=age, add_on=to_cents(price))
        return f"{contract_id} has a driver of {age} years now."

    def _running(self, contract_id: str) -> Row:
        contract = self.db.peek("contracts", contract_id)
        if contract["status"] != "running":
            raise Refused(f"{contract_id} is {contract['status']}.")
        return contract

    # Intents

    def draw_claim(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        days = integer(rng, 1, self.r["window"] + 12)
        ref = self.one(rng, {key: row for key, row in mine.items() if self.until(row["start"]) < -days})
        amount = integer(rng, 5000, 80000) if rng.random() < 0.6 else integer(rng, 80000, 1200000)
        return ref, {"day": self.day(self.r["today"], -days).isoformat(), "amount": cents(amount)}

    def decide_claim(self, ref: str, ask: Ask) -> Decision:
        contract, last = self.db.get("contracts", ref), self.day(ask("day"), self.r["window"])
        if last < self.today:
            text = f"The damage cannot be paid under contract {ref}: the last day for the report was {last}"
            return Decision(text, facts=(("date", last.isoformat()),))
        payout = min(int(ask("amount").replace("$", "").replace(".", "")) - contract["deductible"], contract["cap"])
        if payout <= 0:
            least = cents(contract["deductible"])
            return Decision(f"Contract {ref} does not pay for this: its deductible is {least}", facts=(("money", least),))
        if payout > self.r["adjust"]:
            days = str(self.r["adjust_days"])
            text = f"The adjusters department is taking care of the damage under contract {ref}; that takes {days} days"
            return Decision(text, ("transfer_to_human", {"reference": ref, "department": "adjusters"}), (("number", days),))
        return Decision(
            f"I can file a claim under contract {ref}; the payout is {cents(payout)}",
            ("file_claim", {"contract_id": ref, "payout": payout / 100}),
            (("money", cents(payout)),),
        )

    def draw_cancel(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_cancel(self, ref: str, ask: Ask) -> Decision:
        contract = self.db.get("contracts", ref)
        if contract["kind"] == "bicycle":
            return Decision(f"Contract {ref} cannot be ended before {contract['end']}", facts=(("date", contract["end"]),))
        fee = 0 if self.gold(contract) else self.r["fee"]
        refund = max(0, contract["premium"] * self.until(contract["end"]) // 365 - fee)
        return Decision(
            f"I can end contract {ref} today and pay you {cents(refund)}",
            ("end_contract", {"contract_id": ref, "refund": refund / 100}),
            (("money", cents(refund)),),
        )

    def draw_driver(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine, kind=("car",)), {"age": str(integer(rng, 16, 40))}

    def decide_driver(self, ref: str, ask: Ask) -> Decision:
        contract, age = self.db.get("contracts", ref), int(ask("age"))
        if age < self.r["youngest"]:
            least = str(self.r["youngest"])
            return Decision(
                f"Drivers under contract {ref} have to be at least {least} years old", facts=(("number", least),)
            )
        price = self.r["young_price" if age < self.r["young"] else "old_price"]
        if self.gold(contract):
            price = price * (100 - self.r["gold"]) // 100
        return Decision(
            f"I can add a driver to contract {ref} for {cents(price)}",
            ("add_driver", {"contract_id": ref, "age": age, "price": price / 100}),
            (("money", cents(price)),),
        )
