"""Service desk domain of a clinic: moving and canceling appointments, and fees."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

DOCTORS = ("Dr Amsel", "Dr Bohm", "Dr Cheng", "Dr Duarte", "Dr Engel")
KINDS = ("check-up", "vaccination", "X-ray", "operation")
INSURERS = ("none", "Public", "Union", "Premier")


class Clinic(Domain):
    """Service desk of a clinic."""

    company, noun, table, lister = "Riverside Clinic", "appointment", "appointments", "list_appointments"
    readers: ClassVar[Mapping[str, str]] = {
        "customers": "get_customer",
        "appointments": "get_appointment",
        "slots": "get_slot",
    }
    searchers: ClassVar[Mapping[str, str]] = {"appointments": "list_appointments", "slots": "find_slots"}
    amounts = ("price", "fee")
    hint = "I do not have the number. It is the {kind} with {doctor} on {date}."
    hint_fields = ("kind", "doctor", "date")
    intents: ClassVar[Mapping[str, Intent]] = {
        "move": Intent(
            ("I cannot come on the day we agreed on, I need another one.", "My appointment has to be on another day."),
            {
                "date": Topic(
                    r"\bdates?\b(?! of birth)|\bday\b|\bwhen\b|new day",
                    "the new date of the appointment",
                    "I can come on {}.",
                )
            },
            charged=True,
        ),
        "cancel": Intent(("I have to call off an appointment.", "I am well again and do not need to come."), charged=True),
        "cost": Intent(
            ("What will I have to pay for my appointment?", "I would like to know what a visit costs me."),
            {"insurer": Topic(r"insur\w*|health plan|cover\w*", "the name of your insurer", "My insurer is {}.")},
        ),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "notice": integer(rng, 2, 9),
            "fee": integer(rng, 1000, 5000, 50),
            "limit": integer(rng, 10, 25),
            "covered": [0, integer(rng, 40, 60, 5), integer(rng, 65, 75, 5), integer(rng, 80, 95, 5)],
            "surgery": integer(rng, 3, 9),
        }

    def policy(self) -> str:
        r = self.r
        covered = ", ".join(f"{name} {share} %" for name, share in zip(INSURERS[1:], r["covered"][1:], strict=True))
        return f"""\
Rescheduling. An appointment can be moved to the doctor's earliest free slot on the day the customer wants, up to \
{r["limit"]} days after its present date: refuse a later day, and tell the customer the last possible day. Moving an \
appointment costs $0.00 up to {r["notice"]} days before it and {cents(r["fee"])} after that; gold customers pay $0.00. \
Tell the customer the fee.
Cancellations. The same fees apply. Tell the customer the fee.
Operations cannot be moved or canceled here: hand the appointment over to the surgery department, and tell the \
customer that it takes {r["surgery"]} days.
Costs. The insurer pays part of the price: {covered}. The customer pays the rest, rounded down to the cent, or the whole \
price without an insurer. Tell the customer the amount left to pay."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        slots: dict[str, Row] = {}
        for doctor in DOCTORS:
            for days in range(1, 70):
                if rng.random() < 0.35:
                    times = rng.choice(10, min(2 + extra // 2, 9), replace=False)
                    for hour in times:
                        slots[code(rng, "S", slots)] = {
                            "doctor": doctor,
                            "date": self.day(self.r["today"], days).isoformat(),
                            "time": f"{8 + int(hour):02d}:30",
                            "free": bool(rng.random() < 0.7),
                        }
        appointments: dict[str, Row] = {}
        for customer in customers:
            for _ in range(integer(rng, 3, 5)):
                appointments[code(rng, "A", appointments)] = {
                    "customer_id": customer,
                    "doctor": pick(rng, DOCTORS),
                    "kind": pick(rng, KINDS),
                    "date": self.day(self.r["today"], integer(rng, 1, 20)).isoformat(),
                    "time": f"{integer(rng, 8, 17):02d}:00",
                    "price": integer(rng, 3000, 60000),
                    "status": "booked",
                    "fee": 0,
                }
        return {"appointments": appointments, "slots": slots}

    @tool
    def list_appointments(self, customer_id: str) -> str:
        """List a customer's appointments."""
        return self.list("appointments", customer_id=customer_id)

    @tool
    def get_appointment(self, appointment_id: str) -> str:
        """Show an appointment."""
        return self.show("appointments", appointment_id)

    @tool
    def find_slots(self, doctor: str, date: str) -> str:
        """Find a doctor's slots of a day (as 2026-01-31), free or taken."""
        return self.list("slots", doctor=doctor, date=date)

    @tool
    def get_slot(self, slot_id: str) -> str:
        """Show a slot."""
        return self.show("slots", slot_id)

    @tool
    def move_appointment(self, appointment_id: str, slot_id: str, fee: float) -> str:
        """Move an appointment to a free slot of its doctor, for a fee in dollars.

        Raises:
            Refused: the slot is taken or another doctor's.
        """
        appointment, slot = self._booked(appointment_id), self.db.peek("slots", slot_id)
        if not slot["free"] or slot["doctor"] != appointment["doctor"]:
            raise Refused(f"{slot_id} is not a free slot of {appointment['doctor']}.")
        self.db.change("appointments", appointment_id, date=slot["date"], time=slot["time"], fee=to_cents(fee))
        self.db.change("slots", slot_id, free=False)
        return f"{appointment_id} is on {slot['date']} at {slot['time']} now."

    @tool
    def cancel_appointment(self, appointment_id: str, fee: float) -> str:
        """Call an appointment off, for a fee in dollars."""
        self._booked(appointment_id)
        self.db.change("appointments", appointment_id, status="canceled", fee=to_cents(fee))
        return f"{appointment_id} is called off."

    def _booked(self, appointment_id: str) -> Row:
        appointment = self.db.peek("appointments", appointment_id)
        if appointment["status"] != "booked":
            raise Refused(f"{appointment_id} is {appointment['status']}.")
        return appointment

    # Intents

    def _operation(self, ref: str, appointment: Row) -> Decision | None:
        if appointment["kind"] != "operation":
            return None
        days = str(self.r["surgery"])
        text = f"The surgery department is taking care of appointment {ref}; that takes {days} days"
        return Decision(text, ("transfer_to_human", {"reference": ref, "department": "surgery"}), (("number", days),))

    def _fee(self, appointment: Row) -> int:
        return 0 if self.until(appointment["date"]) >= self.r["notice"] or self.gold(appointment) else self.r["fee"]

    def draw_move(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        ref = self.one(rng, mine)
        if ref is None:
            return None, {}
        slots = self.db.base["slots"].values()
        days = sorted(
            {row["date"] for row in slots if row["free"] and row["doctor"] == mine[ref]["doctor"]} - {mine[ref]["date"]}
        )
        return (ref, {"date": pick(rng, days)}) if days else (None, {})

    def decide_move(self, ref: str, ask: Ask) -> Decision:
        appointment = self.db.get("appointments", ref)
        if handed := self._operation(ref, appointment):
            return handed
        day, last = ask("date"), self.day(appointment["date"], self.r["limit"])
        if self.day(day) > last:
            text = f"Appointment {ref} cannot be moved so far: the last possible day is {last}"
            return Decision(text, facts=(("date", last.isoformat()),))
        slots = self.db.where("slots", doctor=appointment["doctor"], date=day)
        _, slot = min((row["time"], key) for key, row in slots.items() if row["free"])
        fee = self._fee(appointment)
        return Decision(
            f"I can move appointment {ref} to {day} at {slots[slot]['time']} for {cents(fee)}",
            ("move_appointment", {"appointment_id": ref, "slot_id": slot, "fee": fee / 100}),
            (("money", cents(fee)),),
            (day,),
        )

    def draw_cancel(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_cancel(self, ref: str, ask: Ask) -> Decision:
        appointment = self.db.get("appointments", ref)
        if handed := self._operation(ref, appointment):
            return handed
        fee = self._fee(appointment)
        return Decision(
            f"I can call appointment {ref} off for {cents(fee)}",
            ("cancel_appointment", {"appointment_id": ref, "fee": fee / 100}),
            (("money", cents(fee)),),
        )

    def draw_cost(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {"insurer": pick(rng, INSURERS)}

    def decide_cost(self, ref: str, ask: Ask) -> Decision:
        share = self.r["covered"][INSURERS.index(ask("insurer"))]
        rest = self.db.get("appointments", ref)["price"] * (100 - share) // 100
        return Decision(f"For appointment {ref} you will have to pay {cents(rest)}", facts=(("money", cents(rest)),))
