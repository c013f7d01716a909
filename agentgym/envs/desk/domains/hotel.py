"""Service desk domain of a hotel: longer stays, cancellations, late departures."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

ROOMS = ("single", "double", "family", "suite")
CHECK_OUT = 10
LATEST = 20


class Hotel(Domain):
    """Service desk of a hotel."""

    company, noun, table, lister = "Hotel Larkspur", "reservation", "reservations", "list_reservations"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "reservations": "get_reservation"}
    searchers: ClassVar[Mapping[str, str]] = {"reservations": "list_reservations"}
    amounts = ("rate", "charge", "refund")
    hint = "I cannot find the number. It is the {room} room from {check_in} on."
    hint_fields = ("room", "check_in")
    intents: ClassVar[Mapping[str, Intent]] = {
        "extend": Intent(
            ("I would like to stay longer.", "Could I have my room for some more time?"),
            {
                "nights": Topic(
                    r"\bnights?\b|how long|how many|how much longer|until when|\bdays\b",
                    "for how many more nights",
                    "I want {} more nights.",
                )
            },
            charged=True,
        ),
        "cancel": Intent(("I am not coming after all and want my money back.", "Please cancel a room for me.")),
        "late": Intent(
            ("I would like to leave later than usual on my last day.", "I need my room a little longer on the day I leave."),
            {
                "hour": Topic(
                    r"\btime\b|\bhours?\b|\bwhen\b|until|how late|how long|o'clock",
                    "until what time",
                    "I would like to have it until {}.",
                )
            },
            charged=True,
        ),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "longest": integer(rng, 9, 14),
            "long": integer(rng, 5, 7),
            "discount": integer(rng, 5, 30, 5),
            "notice": integer(rng, 2, 10),
            "nights_kept": integer(rng, 1, 2),
            "hour": integer(rng, 500, 2500, 50),
            "gold_hours": integer(rng, 1, 3),
            "suite": integer(rng, 1000, 4000, 100),
        }

    def policy(self) -> str:
        r = self.r
        return f"""\
Longer stays. A stay may have at most {r["longest"]} nights in all: refuse more, and tell the customer that number. Each \
additional night costs the reservation's rate; if the whole stay then has {r["long"]} nights or more, the additional \
nights cost {r["discount"]} % less, the sum rounded down to the cent. Tell the customer the charge.
Cancellations. Up to {r["notice"]} days before check-in, the whole price (nights times rate) is refunded; after that, the \
price of all nights but {r["nights_kept"]} (never less than $0.00). From the day of check-in, nothing can be \
canceled: refuse, and tell the customer the day of check-in. Tell the customer the refund.
Late departures. Check-out is at {CHECK_OUT}:00. Every further hour costs {cents(r["hour"])} ({cents(r["suite"])} in a \
suite); gold customers have {r["gold_hours"]} hours free of charge. {LATEST}:00 is the latest. Tell the customer \
the charge."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        reservations: dict[str, Row] = {}
        for customer in customers:
            for _ in range(integer(rng, 3, 5 + min(extra, 5))):
                reservations[code(rng, "H", reservations)] = {
                    "customer_id": customer,
                    "room": pick(rng, ROOMS),
                    "rate": integer(rng, 6000, 30000, 100),
                    "nights": integer(rng, 1, 7),
                    "check_in": self.day(self.r["today"], integer(rng, -2, 25)).isoformat(),
                    "check_out": f"{CHECK_OUT}:00",
                    "status": "booked",
                    "charge": 0,
                    "refund": 0,
                }
        return {"reservations": reservations}

    @tool
    def list_reservations(self, customer_id: str) -> str:
        """List a customer's reservations."""
        return self.list("reservations", customer_id=customer_id)

    @tool
    def get_reservation(self, reservation_id: str) -> str:
        """Show a reservation; its rate is the price of one night."""
        return self.show("reservations", reservation_id)

    @tool
    def extend_stay(self, reservation_id: str, nights: int, charge: float) -> str:
        """Add nights to a reservation, for a charge in dollars.

        Raises:
            Refused: the number of nights is out of range.
        """
        reservation = self._booked(reservation_id)
        if not 1 <= nights <= 100:
            raise Refused(f"{nights} is not a number of nights to add.")
        self.db.change("reservations", reservation_id, nights=reservation["nights"] + nights, charge=to_cents(charge))
        return f"{reservation_id} has {reservation['nights'] + nights} nights now."

    @tool
    def cancel_reservation(self, reservation_id: str, refund: float) -> str:
        """Cancel a reservation and pay the refund, in dollars.

        Raises:
            Refused: the refund exceeds the price.
        """
        reservation = self._booked(reservation_id)
        if to_cents(refund) > reservation["rate"] * reservation["nights"]:
            raise Refused("The refund is more than the price.")
        self.db.change("reservations", reservation_id, status="canceled", refund=to_cents(refund))
        return f"{reservation_id} is canceled."

    @tool
    def set_check_out(self, reservation_id: str, time: str, charge: float) -> str:
        """Let a room be left later, at a full hour such as 14:00, for a charge in dollars.

        Raises:
            Refused: the time is not a full hour in the allowed range.
        """
        self._booked(reservation_id)
        if time.strip() not in [f"{hour}:00" for hour in range(CHECK_OUT + 1, LATEST + 1)]:
            raise Refused(f"{time[:20]!r} is not a full hour from {CHECK_OUT + 1}:00 to {LATEST}:00.")
        self.db.change("reservations", reservation_id, check_out=time.strip(), charge=to_cents(charge))
        return f"The room of {reservation_id} can be left at {time.strip()}."

    def _booked(self, reservation_id: str) -> Row:
        reservation = self.db.peek("reservations", reservation_id)
        if reservation["status"] != "booked":
            raise Refused(f"{reservation_id} is {reservation['status']}.")
        return reservation

    # Intents

    def draw_extend(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {"nights": str(integer(rng, 2, 9))}

    def decide_extend(self, ref: str, ask: Ask) -> Decision:
        reservation, nights, most = self.db.get("reservations", ref), int(ask("nights")), self.r["longest"]
        if reservation["nights"] + nights > most:
            return Decision(f"Reservation {ref} can have at most {most} nights in all", facts=(("number", str(most)),))
        charge = reservation["rate"] * nights
        if reservation["nights"] + nights >= self.r["long"]:
            charge = charge * (100 - self.r["discount"]) // 100
        return Decision(
            f"I can add {nights} nights to reservation {ref} for {cents(charge)}",
            ("extend_stay", {"reservation_id": ref, "nights": nights, "charge": charge / 100}),
            (("money", cents(charge)),),
        )

    def draw_cancel(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_cancel(self, ref: str, ask: Ask) -> Decision:
        reservation = self.db.get("reservations", ref)
        left = self.until(reservation["check_in"])
        if left <= 0:
            text = f"Reservation {ref} cannot be canceled: the check-in was on {reservation['check_in']}"
            return Decision(text, facts=(("date", reservation["check_in"]),))
        nights = reservation["nights"] if left >= self.r["notice"] else max(0, reservation["nights"] - self.r["nights_kept"])
        refund = nights * reservation["rate"]
        return Decision(
            f"I can cancel reservation {ref} and pay you {cents(refund)}",
            ("cancel_reservation", {"reservation_id": ref, "refund": refund / 100}),
            (("money", cents(refund)),),
        )

    def draw_late(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {"hour": f"{integer(rng, CHECK_OUT + 1, LATEST)}:00"}

    def decide_late(self, ref: str, ask: Ask) -> Decision:
        reservation, hour = self.db.get("reservations", ref), ask("hour")
        hours = int(hour.partition(":")[0]) - CHECK_OUT - (self.r["gold_hours"] if self.gold(reservation) else 0)
        charge = max(0, hours) * self.r["suite" if reservation["room"] == "suite" else "hour"]
        return Decision(
            f"With reservation {ref} you can have the room until {hour} for {cents(charge)}",
            ("set_check_out", {"reservation_id": ref, "time": hour, "charge": charge / 100}),
            (("money", cents(charge)),),
            (hour,),
        )
