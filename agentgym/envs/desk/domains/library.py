"""Service desk domain of a library: renewals, lost books, fines."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, cents, code, integer, pick, to_cents

TITLES = (
    "Salt Roads",
    "The Quiet Engine",
    "Maps of Rain",
    "A Field Guide to Stars",
    "Glass Harbour",
    "The Ninth Orchard",
    "Northern Songs",
    "Clay and Fire",
    "Letters to a Bridge",
    "The Long Tide",
    "Paper Birds",
    "Winter Ledger",
)
KINDS = ("book", "film", "game")


class Library(Domain):
    """Service desk of a library."""

    company, noun, table, lister = "Eastwick City Library", "loan", "loans", "list_loans"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "loans": "get_loan"}
    searchers: ClassVar[Mapping[str, str]] = {"loans": "list_loans"}
    amounts = ("price", "charge")
    hint = "I have no number. It is the {kind} {title}, which I borrowed on {borrowed}."
    hint_fields = ("kind", "title", "borrowed")
    intents: ClassVar[Mapping[str, Intent]] = {
        "renew": Intent(("I would like to keep something longer.", "I am not through with what I borrowed.")),
        "lost": Intent(("I am sorry, I lost something of yours.", "I cannot find a thing that I borrowed."), charged=True),
        "fine": Intent(("How much do I owe you for something that is late?", "I would like to know my fine for a loan.")),
        "waive": Intent(("I do not think that I should pay the fine for a loan.", "Please waive a fine for me.")),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "days": {kind: integer(rng, low, low + 9) for kind, low in zip(KINDS, (14, 4, 6), strict=True)},
            "gold_days": integer(rng, 2, 8),
            "renewals": integer(rng, 1, 3),
            "processing": integer(rng, 200, 1500, 25),
            "fines": {kind: integer(rng, 20, 150, 5) for kind in KINDS},
            "cap": integer(rng, 500, 1500, 50),
            "grace": integer(rng, 2, 8),
        }

    def policy(self) -> str:
        r = self.r
        days = ", ".join(f"{number} days for a {kind}" for kind, number in r["days"].items())
        fines = ", ".join(f"{cents(fine)} for a {kind}" for kind, fine in r["fines"].items())
        return f"""\
Renewals. A loan that nobody has reserved can be renewed {r["renewals"]} times. The new due date is counted from the old \
one, or from today if the loan is late: {days}; gold customers have {r["gold_days"]} more days. Tell the customer the new \
due date. If a loan cannot be renewed, refuse, and tell the customer the day on which it is or was due.
Lost items cost their price plus a processing fee of {cents(r["processing"])}, which gold customers do not pay. Tell the \
customer the charge.
Fines. Every day after the due date costs {fines}, up to {cents(r["cap"])} in all; a loan that is not late costs \
$0.00. When a customer asks, tell them the fine.
Waivers. The fine of a loan that is at most {r["grace"]} days late can be waived; tell the customer the fine \
that you waive. Otherwise refuse, and tell the customer the fine to be paid. This also applies to a fine of $0.00."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        loans: dict[str, Row] = {}
        for customer in customers:
            for title in rng.choice(TITLES, integer(rng, 4, 6 + min(extra, 6)), replace=False):
                kind, late = pick(rng, KINDS), integer(rng, -10, 15)
                due = self.day(self.r["today"], -late)
                loans[code(rng, "N", loans)] = {
                    "customer_id": customer,
                    "kind": kind,
                    "title": str(title),
                    "due": due.isoformat(),
                    "borrowed": self.day(due.isoformat(), -integer(rng, 12, 40)).isoformat(),
                    "renewals": integer(rng, 0, 3),
                    "reserved": bool(rng.random() < 0.25),
                    "price": integer(rng, 800, 6000),
                    "status": "on loan",
                    "charge": 0,
                    "fine_taken_off": False,
                }
        return {"loans": loans}

    @tool
    def list_loans(self, customer_id: str) -> str:
        """List a customer's loans."""
        return self.list("loans", customer_id=customer_id)

    @tool
    def get_loan(self, loan_id: str) -> str:
        """Show a loan."""
        return self.show("loans", loan_id)

    @tool
    def renew_loan(self, loan_id: str, due: str) -> str:
        """Renew a loan until a new due date (as 2026-01-31).

        Raises:
            Refused: the due date is malformed.
        """
        loan = self._on_loan(loan_id)
        try:
            day = self.day(due.strip())
        except ValueError:
            raise Refused(f"{due[:20]!r} is not a date such as 2026-01-31.") from None
        self.db.change("loans", loan_id, due=day.isoformat(), renewals=loan["renewals"] + 1)
        return f"{loan_id} is due on {day} now."

    @tool
    def mark_lost(self, loan_id: str, charge: float) -> str:
        """Note that a loan is lost, for a charge in dollars."""
        self._on_loan(loan_id)
        self.db.change("loans", loan_id, status="lost", charge=to_cents(charge))
        return f"{loan_id} is marked as lost."

    @tool
    def take_fine_off(self, loan_id: str) -> str:
        """Take the fine of a loan off."""
        self._on_loan(loan_id)
        self.db.change("loans", loan_id, fine_taken_off=True)
        return f"The fine of {loan_id} is waived."

    def _on_loan(self, loan_id: str) -> Row:
        loan = self.db.peek("loans", loan_id)
        if loan["status"] != "on loan":
            raise Refused(f"{loan_id} is {loan['status']}.")
        return loan

    # Intents

    def draw_renew(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_renew(self, ref: str, ask: Ask) -> Decision:
        loan = self.db.get("loans", ref)
        if loan["reserved"] or loan["renewals"] >= self.r["renewals"]:
            return Decision(f"Loan {ref} cannot be renewed: its due date is {loan['due']}", facts=(("date", loan["due"]),))
        days = self.r["days"][loan["kind"]] + self.r["gold_days"] * self.gold(loan)
        due = self.day(max(loan["due"], self.today.isoformat()), days).isoformat()
        return Decision(
            f"I can renew loan {ref}; it will be due on {due}",
            ("renew_loan", {"loan_id": ref, "due": due}),
            (("date", due),),
        )

    def draw_lost(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_lost(self, ref: str, ask: Ask) -> Decision:
        loan = self.db.get("loans", ref)
        charge = loan["price"] + (0 if self.gold(loan) else self.r["processing"])
        return Decision(
            f"I can mark loan {ref} as lost; that costs {cents(charge)}",
            ("mark_lost", {"loan_id": ref, "charge": charge / 100}),
            (("money", cents(charge)),),
        )

    def _fine(self, loan: Row) -> str:
        return cents(min(self.r["cap"], self.r["fines"][loan["kind"]] * max(0, -self.until(loan["due"]))))

    def draw_fine(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine), {}

    def decide_fine(self, ref: str, ask: Ask) -> Decision:
        fine = self._fine(self.db.get("loans", ref))
        return Decision(f"The fine for loan {ref} is {fine}", facts=(("money", fine),))

    def draw_waive(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        late = {key: row for key, row in mine.items() if self.until(row["due"]) < 0}
        return self.one(rng, late), {}

    def decide_waive(self, ref: str, ask: Ask) -> Decision:
        loan = self.db.get("loans", ref)
        fine = self._fine(loan)
        if -self.until(loan["due"]) > self.r["grace"]:
            return Decision(f"For loan {ref} the fine of {fine} has to be paid", facts=(("money", fine),))
        text = f"I can waive the fine of {fine} for loan {ref}"
        return Decision(text, ("take_fine_off", {"loan_id": ref}), (("money", fine),))
