"""Service desk domain of a telephone company: plans, roaming, terminations."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

ZONES = (("Norway", "Iceland", "Malta"), ("Canada", "Japan", "Kenya"), ("Peru", "Nepal", "Fiji"))
DEVICES = ("phone", "tablet", "watch", "alarm", "car", "router")
PLANS = ("Small", "Basic", "Medium", "Large", "Extra", "Giant", "Endless")


class Telecom(Domain):
    """Service desk of a telephone company."""

    company, noun, table, lister = "Meridian Mobile", "line", "lines", "list_lines"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "lines": "get_line", "plans": "get_plan"}
    searchers: ClassVar[Mapping[str, str]] = {"lines": "list_lines", "plans": "list_plans"}
    amounts = ("monthly", "open_bill", "charge")
    hint = "I do not know the number. It is the line of my {device}, which I have had since {since}."
    hint_fields = ("device", "since")
    intents: ClassVar[Mapping[str, Intent]] = {
        "plan": Intent(
            ("I need a plan with another amount of data.", "My plan does not fit any more, because of the data."),
            {
                "data": Topic(
                    r"\bdata\b|\bgb\b|gigabytes?|how much|which plan|what plan",
                    "how much data you need",
                    "I need at least {} GB a month.",
                )
            },
        ),
        "roaming": Intent(
            ("I am going abroad and want to use my line there.", "I would like roaming for a trip."),
            {
                "country": Topic(
                    r"\bcountry\b|\bwhere\b|destination|which place|travel\w* to",
                    "the country you are going to",
                    "I am going to {}.",
                ),
                "days": Topic(
                    r"\bdays\b|how long|duration|\bdates\b|length", "for how many days you need it", "I need it for {} days."
                ),
            },
            charged=True,
        ),
        "close": Intent(("I do not need one of my lines any more.", "I want to give up a line."), charged=True),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        low = integer(rng, 100, 300, 25)
        return {
            "zones": [low, low + integer(rng, 100, 300, 25), low + integer(rng, 400, 900, 25)],
            "discount": integer(rng, 10, 50, 5),
            "longest": integer(rng, 14, 28),
            "month": integer(rng, 300, 1500, 50),
            "activation": integer(rng, 300, 1500, 50),
        }

    def policy(self) -> str:
        r = self.r
        zones = "; ".join(
            f"{cents(price)} a day in {', '.join(zone)}" for zone, price in zip(ZONES, r["zones"], strict=True)
        )
        return f"""\
Open bills. If a line has an open bill, do none of the following for it: refuse, and tell the customer the open amount.
Plans. Take the cheapest plan with at least the data that the customer needs. Until a line's contract ends, it cannot move \
to a plan with a lower monthly price: refuse, and tell the customer the day on which the contract ends. The \
first bill is the monthly price of the new plan plus a fee of {cents(r["activation"])}, which gold customers do not \
pay. Tell the customer the first bill.
Roaming costs {zones}; gold customers pay {r["discount"]} % less, the sum rounded down to the cent. It is sold for at most \
{r["longest"]} days: refuse more, and tell the customer that number. Tell the customer the whole charge.
Ending a line. A line can be ended at any time. Before its contract ends, that costs {cents(r["month"])} for every 30 days \
that are left, rounded up to whole periods; after that, $0.00. Tell the customer the charge."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        plans: dict[str, Row] = {}
        data, price = integer(rng, 1, 3), integer(rng, 5, 12)
        for name in PLANS[: min(4 + extra, len(PLANS))]:
            plans[code(rng, "P", plans, 3)] = {"name": name, "data_gb": data, "monthly": 100 * price + 99}
            data, price = data + integer(rng, 2, 12), price + integer(rng, 2, 9)
        lines: dict[str, Row] = {}
        for customer in customers:
            for device in rng.choice(DEVICES, integer(rng, 3, 5), replace=False):
                since = self.day(self.r["today"], -integer(rng, 20, 1000))
                lines[code(rng, "L", lines)] = {
                    "customer_id": customer,
                    "device": str(device),
                    "plan_id": pick(rng, list(plans)),
                    "since": since.isoformat(),
                    "contract_end": self.day(self.r["today"], integer(rng, -200, 300)).isoformat(),
                    "open_bill": integer(rng, 500, 9000) if rng.random() < 0.25 else 0,
                    "status": "active",
                    "roaming": None,
                    "charge": 0,
                }
        return {"lines": lines, "plans": plans}

    @tool
    def list_lines(self, customer_id: str) -> str:
        """List a customer's lines."""
        return self.list("lines", customer_id=customer_id)

    @tool
    def get_line(self, line_id: str) -> str:
        """Show a line."""
        return self.show("lines", line_id)

    @tool
    def list_plans(self) -> str:
        """List all plans with their data and monthly price."""
        return self.list("plans")

    @tool
    def get_plan(self, plan_id: str) -> str:
        """Show a plan."""
        return self.show("plans", plan_id)

    @tool
    def change_plan(self, line_id: str, plan_id: str, first_bill: float) -> str:
        """Give a line another plan; the first bill is in dollars."""
        self._active(line_id)
        plan = self.db.peek("plans", plan_id)
        self.db.change("lines", line_id, plan_id=plan_id, charge=to_cents(first_bill))
        return f"{line_id} has the plan {plan['name']} now."

    @tool
    def add_roaming(self, line_id: str, country: str, days: int, charge: float) -> str:
        """Let a line be used in a country for some days, for a charge in dollars in all.

        Raises:
            Refused: the country or the number of days is invalid.
        """
        self._active(line_id)
        named = next(
            (country_name for zone in ZONES for country_name in zone if country_name.lower() == country.strip().lower()),
            None,
        )
        if named is None or not 1 <= days <= 365:
            raise Refused(f"There is no roaming in {country[:40]!r} for {days} days.")
        self.db.change("lines", line_id, roaming=f"{named}, {days} days", charge=to_cents(charge))
        return f"{line_id} can be used in {named} for {days} days."

    @tool
    def close_line(self, line_id: str, charge: float) -> str:
        """Give up a line, for a charge in dollars."""
        self._active(line_id)
        self.db.change("lines", line_id, status="closed", charge=to_cents(charge))
        return f"{line_id} is closed."

    def _active(self, line_id: str) -> None:
        if self.db.peek("lines", line_id)["status"] != "active":
            raise Refused(f"{line_id} is closed.")

    # Intents

    def _open_bill(self, ref: str, line: Row) -> Decision | None:
        bill = cents(line["open_bill"])
        return (
            Decision(f"For line {ref} a bill of {bill} is open, so that is not possible", facts=(("money", bill),))
            if line["open_bill"]
            else None
        )

    def draw_plan(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        most = max(plan["data_gb"] for plan in self.db.base["plans"].values())
        return self.one(rng, mine), {"data": str(integer(rng, 1, most))}

    def decide_plan(self, ref: str, ask: Ask) -> Decision:
        line = self.db.get("lines", ref)
        if bill := self._open_bill(ref, line):
            return bill
        needed, plans = int(ask("data")), self.db.where("plans")
        price, cheapest = min((plan["monthly"], key) for key, plan in plans.items() if plan["data_gb"] >= needed)
        end = line["contract_end"]
        if self.until(end) > 0 and price < plans[line["plan_id"]]["monthly"]:
            return Decision(
                f"Line {ref} cannot have a cheaper plan before its contract ends on {end}", facts=(("date", end),)
            )
        bill = price + (0 if self.gold(line) else self.r["activation"])
        name = plans[cheapest]["name"]
        return Decision(
            f"I can give line {ref} the plan {name}; the first bill is {cents(bill)}",
            ("change_plan", {"line_id": ref, "plan_id": cheapest, "first_bill": bill / 100}),
            (("money", cents(bill)),),
            (name,),
        )

    def draw_roaming(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {
            "country": pick(rng, pick(rng, ZONES)),
            "days": str(integer(rng, 2, self.r["longest"] + 4)),
        }

    def decide_roaming(self, ref: str, ask: Ask) -> Decision:
        line = self.db.get("lines", ref)
        if bill := self._open_bill(ref, line):
            return bill
        days, country = int(ask("days")), ask("country")
        if days > (most := self.r["longest"]):
            return Decision(f"For line {ref} roaming is sold for at most {most} days", facts=(("number", str(most)),))
        charge = days * next(price for zone, price in zip(ZONES, self.r["zones"], strict=True) if country in zone)
        if self.gold(line):
            charge = charge * (100 - self.r["discount"]) // 100
        return Decision(
            f"I can let line {ref} be used in {country} for {days} days; that costs {cents(charge)}",
            ("add_roaming", {"line_id": ref, "country": country, "days": days, "charge": charge / 100}),
            (("money", cents(charge)),),
            (country,),
        )

    def draw_close(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_close(self, ref: str, ask: Ask) -> Decision:
        line = self.db.get("lines", ref)
        if bill := self._open_bill(ref, line):
            return bill
        charge = self.r["month"] * max(0, -(-self.until(line["contract_end"]) // 30))
        return Decision(
            f"I can close line {ref} for {cents(charge)}",
            ("close_line", {"line_id": ref, "charge": charge / 100}),
            (("money", cents(charge)),),
        )
