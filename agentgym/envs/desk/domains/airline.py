"""Service desk domain of an airline: rebooking, cancellations, bags."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

CITIES = ("Oslo", "Rome", "Lisbon", "Vienna", "Dublin", "Athens", "Warsaw", "Madrid")
CABINS = ("basic", "economy", "business")
OTHER_DAYS = 3
"""Number of days with alternative flights on a booking's route."""


class Airline(Domain):
    """Service desk of an airline."""

    company, noun, table, lister = "Northwind Air", "booking", "bookings", "list_bookings"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "bookings": "get_booking", "flights": "get_flight"}
    searchers: ClassVar[Mapping[str, str]] = {"bookings": "list_bookings", "flights": "find_flights"}
    amounts = ("fare", "price", "refund", "charge")
    hint = "I do not know the number. I fly from {origin} to {destination} on {date}."
    hint_fields = ("origin", "destination", "date")
    intents: ClassVar[Mapping[str, Intent]] = {
        "change": Intent(
            ("I would like to fly on another day.", "My flight has to be moved to another day."),
            {
                "date": Topic(
                    r"\bdates?\b(?! of birth)|\bday\b|when .*(?:fly|travel|flight)|new day",
                    "the new date of your flight",
                    "I want to fly on {}.",
                )
            },
            charged=True,
        ),
        "cancel": Intent(("I cannot go on a trip and want my money back.", "Please cancel a flight of mine.")),
        "bags": Intent(("How many bags may we take with us for free?", "I would like to know our free baggage, in bags.")),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "cutoff": integer(rng, 1, 5),
            "basic_cutoff": integer(rng, 8, 30),
            "fee": integer(rng, 1500, 9000, 50),
            "kept": integer(rng, 10, 60, 5),
            "free_days": integer(rng, 1, 4),
            "bags": [integer(rng, 0, 1), integer(rng, 1, 2), integer(rng, 2, 4)],
            "gold_bags": integer(rng, 1, 3),
        }

    def policy(self) -> str:
        r = self.r
        return f"""\
Changes. A booking can be moved to another day up to {r["cutoff"]} days before departure ({r["basic_cutoff"]} days \
in basic). Take the cheapest flight on that day and route that has a seat for every passenger. \
The charge is a fee of {cents(r["fee"])} for the booking (none in business) plus, for every passenger, the amount by \
which the \
new price exceeds the old fare; a lower price is not refunded. Tell the customer the charge. If it is too late, \
refuse, and tell the customer the last day on which it was possible.
Cancellations. The same time limits apply. The refund is the fare of all passengers less {r["kept"]} %, rounded down to the \
cent, or the whole fare if the booking was made at most {r["free_days"]} days ago. Tell the customer the refund.
Bags. Every passenger has {r["bags"][0]} free bags in basic, {r["bags"][1]} in economy and {r["bags"][2]} in business; \
a gold \
customer's booking has {r["gold_bags"]} more in all. Tell the customer the number of bags for the whole booking."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        bookings: dict[str, Row] = {}
        flights: dict[str, Row] = {}
        for customer in customers:
            for _ in range(integer(rng, 3, 4)):
                origin, destination = (CITIES[int(i)] for i in rng.choice(len(CITIES), 2, replace=False))
                leaves = self.day(self.r["today"], integer(rng, 0, 40))
                own = self._flight(rng, flights, origin, destination, leaves.isoformat(), integer(rng, 60, 500))
                for _ in range(OTHER_DAYS):
                    day, base = self.day(self.r["today"], integer(rng, 3, 60)).isoformat(), integer(rng, 60, 500)
                    for i in range(integer(rng, 2, 3 + min(extra, 5))):
                        self._flight(rng, flights, origin, destination, day, base + 17 * i + integer(rng, 0, 9))
                bookings[code(rng, "B", bookings)] = {
                    "customer_id": customer,
                    "flight_id": own,
                    "origin": origin,
                    "destination": destination,
                    "date": leaves.isoformat(),
                    "cabin": pick(rng, CABINS),
                    "passengers": integer(rng, 1, 4),
                    "fare": flights[own]["price"],
                    "booked": self.day(self.r["today"], -integer(rng, 0, 9)).isoformat(),
                    "status": "booked",
                    "charge": 0,
                    "refund": 0,
                }
        return {"bookings": bookings, "flights": flights}

    def _flight(
        self, rng: np.random.Generator, flights: dict[str, Row], origin: str, destination: str, day: str, price: int
    ) -> str:
        key = code(rng, "F", flights)
        flights[key] = {
            "origin": origin,
            "destination": destination,
            "date": day,
            "departs": f"{integer(rng, 6, 21):02d}:{integer(rng, 0, 55, 5):02d}",
            "seats": integer(rng, 0, 6),
            "price": 100 * price,
        }
        return key

    @tool
    def list_bookings(self, customer_id: str) -> str:
        """List a customer's bookings."""
        return self.list("bookings", customer_id=customer_id)

    @tool
    def get_booking(self, booking_id: str) -> str:
        """Show a booking; its fare is that of one passenger."""
        return self.show("bookings", booking_id)

    @tool
    def get_flight(self, flight_id: str) -> str:
        """Show a flight with its free seats and its price for one passenger."""
        return self.show("flights", flight_id)

    @tool
    def find_flights(self, origin: str, destination: str, date: str) -> str:
        """Find the flights of a day (as 2026-01-31) between two cities."""
        return self.list("flights", origin=origin, destination=destination, date=date)

    @tool
    def change_flight(self, booking_id: str, flight_id: str, charge: float) -> str:
        """Move a booking to another flight of the same route, for a charge in dollars in all.

        Raises:
            Refused: the flight has another route or too few seats.
        """
        booking, flight = self._booked(booking_id), self.db.peek("flights", flight_id)
        if any(booking[name] != flight[name] for name in ("origin", "destination")):
            raise Refused(f"{flight_id} flies from {flight['origin']} to {flight['destination']}.")
        if flight["seats"] < booking["passengers"]:
            raise Refused(
                f"{flight_id} has {flight['seats']} seats left; {booking_id} has {booking['passengers']} passengers."
            )
        self.db.change("bookings", booking_id, flight_id=flight_id, date=flight["date"], charge=to_cents(charge))
        self.db.change("flights", flight_id, seats=flight["seats"] - booking["passengers"])
        return f"{booking_id} is on {flight_id} of {flight['date']} now; {cents(to_cents(charge))} is charged."

    @tool
    def cancel_booking(self, booking_id: str, refund: float) -> str:
        """Cancel a booking and pay the refund, in dollars.

        Raises:
            Refused: the refund exceeds the fare.
        """
        booking = self._booked(booking_id)
        if to_cents(refund) > booking["fare"] * booking["passengers"]:
            raise Refused("The refund is more than the fare.")
        self.db.change("bookings", booking_id, status="canceled", refund=to_cents(refund))
        return f"{booking_id} is canceled; {cents(to_cents(refund))} will be paid back."

    def _booked(self, booking_id: str) -> Row:
        booking = self.db.peek("bookings", booking_id)
        if booking["status"] != "booked":
            raise Refused(f"{booking_id} is {booking['status']}.")
        return booking

    # Intents

    def _too_late(self, ref: str, booking: Row, done: str) -> Decision | None:
        last = self.day(booking["date"], -self.r["basic_cutoff" if booking["cabin"] == "basic" else "cutoff"])
        if last >= self.today:
            return None
        return Decision(f"Booking {ref} cannot be {done}: the last day was {last}", facts=(("date", last.isoformat()),))

    def draw_change(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        ref = self.one(rng, mine)
        if ref is None:
            return None, {}
        booking = mine[ref]
        same = ("origin", "destination")
        days = sorted(
            row["date"]
            for row in self.db.base["flights"].values()
            if row["seats"] >= booking["passengers"]
            and all(row[k] == booking[k] for k in same)
            and row["date"] != booking["date"]
        )
        return (ref, {"date": pick(rng, days)}) if days else (None, {})

    def decide_change(self, ref: str, ask: Ask) -> Decision:
        booking = self.db.get("bookings", ref)
        late = self._too_late(ref, booking, "moved")
        if late is not None:
            return late
        day = ask("date")
        flights = self.db.where("flights", origin=booking["origin"], destination=booking["destination"], date=day)
        free = [(row["price"], key) for key, row in flights.items() if row["seats"] >= booking["passengers"]]
        price, flight = min(free)
        charge = 0 if booking["cabin"] == "business" else self.r["fee"]
        charge += max(0, price - booking["fare"]) * booking["passengers"]
        return Decision(
            f"I can move booking {ref} to flight {flight} on {day} for {cents(charge)} in all",
            ("change_flight", {"booking_id": ref, "flight_id": flight, "charge": charge / 100}),
            (("money", cents(charge)),),
            (day,),
        )

    def draw_cancel(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_cancel(self, ref: str, ask: Ask) -> Decision:
        booking = self.db.get("bookings", ref)
        late = self._too_late(ref, booking, "canceled")
        if late is not None:
            return late
        refund = booking["fare"] * booking["passengers"]
        if -self.until(booking["booked"]) > self.r["free_days"]:
            refund = refund * (100 - self.r["kept"]) // 100
        return Decision(
            f"I can cancel booking {ref} and pay you {cents(refund)}",
            ("cancel_booking", {"booking_id": ref, "refund": refund / 100}),
            (("money", cents(refund)),),
        )

    def draw_bags(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_bags(self, ref: str, ask: Ask) -> Decision:
        booking = self.db.get("bookings", ref)
        bags = self.r["bags"][CABINS.index(booking["cabin"])] * booking["passengers"]
        bags += self.r["gold_bags"] * self.gold(booking)
        return Decision(f"Booking {ref} has {bags} free bags in all", facts=(("number", str(bags)),))
