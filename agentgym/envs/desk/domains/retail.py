"""Service desk domain of an online shop: returns, cancellations, address changes."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

import numpy as np

from agentgym.core.actions import tool
from agentgym.envs.desk import people
from agentgym.envs.desk.database import Refused, Row, Tables
from agentgym.envs.desk.domain import Ask, Decision, Domain, Drawn, Intent, Topic, cents, code, integer, pick, to_cents

GOODS = {
    "kitchen": ("kettle", "toaster", "frying pan", "coffee grinder", "knife set"),
    "electronics": ("headphones", "tablet", "webcam", "router", "keyboard"),
    "garden": ("hose", "parasol", "spade", "lantern", "bird feeder"),
}
COLOURS = ("blue", "red", "black", "white", "green", "grey")


class Retail(Domain):
    """Service desk of an online shop."""

    company, noun, table, lister = "Harbour Goods", "order", "orders", "list_orders"
    readers: ClassVar[Mapping[str, str]] = {"customers": "get_customer", "orders": "get_order"}
    searchers: ClassVar[Mapping[str, str]] = {"orders": "list_orders"}
    amounts = ("price", "refund", "fee")
    hint = "I do not have the number. It is the {item} that I ordered on {ordered}."
    hint_fields = ("item", "ordered")
    intents: ClassVar[Mapping[str, Intent]] = {
        "return": Intent(("I want to send something back.", "I would like to return something that I bought.")),
        "cancel": Intent(("I would like to cancel an order.", "Please stop an order of mine.")),
        "address": Intent(
            ("I need a parcel to go to another address.", "An order of mine should be delivered somewhere else."),
            {"address": Topic(r"address|where|street|deliver\w* to", "the new address", "Please send it to {}.")},
            charged=True,
        ),
    }

    @staticmethod
    def rules(rng: np.random.Generator) -> Row:
        return {
            "window": integer(rng, 14, 60),
            "electronics": integer(rng, 7, 13),
            "restocking": integer(rng, 5, 30, 5),
            "grace": integer(rng, 2, 12),
            "redirect": integer(rng, 199, 999, 50),
        }

    def policy(self) -> str:
        r = self.r
        return f"""\
Returns. A delivered order can be returned up to {r["window"]} days after its delivery, electronics up to \
{r["electronics"]} days; gold customers have {r["grace"]} more days in either case. The refund is the price less a \
restocking \
fee of {r["restocking"]} %, rounded down to the cent; gold customers pay no restocking fee. Tell the customer the refund. \
If it is too late, refuse, and tell the customer the last day on which the return was possible.
Cancellations. A pending order can be canceled. The refund is the price; tell the customer. No other order can be \
canceled: refuse, and tell the customer the day on which it was shipped.
Addresses. A pending order can be sent to another address for {cents(r["redirect"])} ($0.00 for gold customers); tell the \
customer the fee. No other order can: refuse, and tell the customer the day on which it was shipped."""

    def fill(self, rng: np.random.Generator, customers: Sequence[str], extra: int) -> Tables:
        orders: dict[str, Row] = {}
        for customer in customers:
            for _ in range(integer(rng, 4, 6)):
                category = pick(rng, list(GOODS))
                ordered = self.day(self.r["today"], -integer(rng, 1, 90))
                status = pick(rng, ("delivered", "delivered", "pending", "shipped"))
                shipped = (
                    ordered if status == "pending" else min(self.today, self.day(ordered.isoformat(), integer(rng, 1, 4)))
                )
                arrived = min(self.today, self.day(shipped.isoformat(), integer(rng, 1, 6)))
                orders[code(rng, "R", orders)] = {
                    "customer_id": customer,
                    "item": f"{pick(rng, COLOURS)} {pick(rng, GOODS[category])}",
                    "category": category,
                    "price": integer(rng, 900, 30000),
                    "status": status,
                    "ordered": ordered.isoformat(),
                    "shipped": None if status == "pending" else shipped.isoformat(),
                    "delivered": arrived.isoformat() if status == "delivered" else None,
                    "address": people.address(rng),
                    "refund": 0,
                    "fee": 0,
                }
        return {"orders": orders}

    @tool
    def list_orders(self, customer_id: str) -> str:
        """List a customer's orders."""
        return self.list("orders", customer_id=customer_id)

    @tool
    def get_order(self, order_id: str) -> str:
        """Show an order."""
        return self.show("orders", order_id)

    @tool
    def return_order(self, order_id: str, refund: float) -> str:
        """Take a delivered order back and pay the refund, in dollars.

        Raises:
            Refused: the refund exceeds the price.
        """
        order = self._with_status(order_id, "delivered")
        if to_cents(refund) > order["price"]:
            raise Refused("The refund is more than the price.")
        self.db.change("orders", order_id, status="returned", refund=to_cents(refund))
        return f"{order_id} is returned; {cents(to_cents(refund))} will be paid back."

    @tool
    def cancel_order(self, order_id: str) -> str:
        """Cancel an order that has not been shipped and pay its price back."""
        order = self._with_status(order_id, "pending")
        self.db.change("orders", order_id, status="canceled", refund=order["price"])
        return f"{order_id} is canceled."

    @tool
    def change_address(self, order_id: str, address: str, fee: float) -> str:
        """Send an order that has not been shipped to another address, for a fee in dollars."""
        self._with_status(order_id, "pending")
        self.db.change("orders", order_id, address=" ".join(address.split()), fee=to_cents(fee))
        return f"{order_id} goes to {address[:80]}."

    def _with_status(self, order_id: str, status: str) -> Row:
        order = self.db.peek("orders", order_id)
        if order["status"] != status:
            raise Refused(f"{order_id} is {order['status']}, not {status}.")
        return order

    # Intents

    def draw_return(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine, status=("delivered",)), {}

    def decide_return(self, ref: str, ask: Ask) -> Decision:
        order = self.db.get("orders", ref)
        gold = self.gold(order)
        days = self.r["electronics" if order["category"] == "electronics" else "window"] + gold * self.r["grace"]
        last = self.day(order["delivered"], days)
        if last < self.today:
            return Decision(f"Order {ref} cannot be returned: the last day was {last}", facts=(("date", last.isoformat()),))
        refund = order["price"] if gold else order["price"] * (100 - self.r["restocking"]) // 100
        return Decision(
            f"I can take order {ref} back and pay you {cents(refund)}",
            ("return_order", {"order_id": ref, "refund": refund / 100}),
            (("money", cents(refund)),),
        )

    def draw_cancel(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine, status=("pending", "shipped")), {}

    def decide_cancel(self, ref: str, ask: Ask) -> Decision:
        order = self.db.get("orders", ref)
        if order["status"] != "pending":
            return self._shipped("canceled", ref, order)
        return Decision(
            f"I can cancel order {ref} and pay you {cents(order['price'])}",
            ("cancel_order", {"order_id": ref}),
            (("money", cents(order["price"])),),
        )

    def draw_address(self, rng: np.random.Generator, mine: dict[str, Row]) -> Drawn:
        return self.one(rng, mine, status=("pending", "shipped")), {"address": people.address(rng)}

    def decide_address(self, ref: str, ask: Ask) -> Decision:
        order = self.db.get("orders", ref)
        if order["status"] != "pending":
            return self._shipped("sent elsewhere", ref, order)
        fee = 0 if self.gold(order) else self.r["redirect"]
        where = ask("address")
        call = {"order_id": ref, "address": where, "fee": fee / 100}
        text = f"I can send order {ref} to {where} for {cents(fee)}"
        return Decision(text, ("change_address", call), (("money", cents(fee)),), (where,))

    def _shipped(self, done: str, ref: str, order: Row) -> Decision:
        return Decision(
            f"Order {ref} cannot be {done}: it was shipped on {order['shipped']}", facts=(("date", order["shipped"]),)
        )
