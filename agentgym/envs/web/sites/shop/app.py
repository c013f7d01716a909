"""Pages of the shop."""

import sqlite3

from flask import abort, render_template, request
from flask.typing import ResponseReturnValue

from agentgym.envs.web.formats import money
from agentgym.envs.web.sites.frame import (
    Site,
    db,
    done,
    field,
    like,
    me,
    needs_login,
    number,
    refused,
    slice_of,
    state,
)
from agentgym.envs.web.sites.shop.data import CATEGORIES, SHIPPING

NOTICES = {
    "added": "The product is in your cart.",
    "updated": "The cart is updated.",
    "removed": "The product is no longer in your cart.",
    "wished": "The product is on your wish list.",
    "unwished": "The product is no longer on your wish list.",
    "ordered": "Thank you. Your order is placed.",
    "cancelled": "The order is cancelled.",
    "reviewed": "Your review is saved.",
    "unreviewed": "Your review is deleted.",
    "address": "The address is saved.",
    "noaddress": "The address is deleted.",
}
NAV = (
    ("Products", "/products"),
    ("Cart", "/cart"),
    ("Wish list", "/wishlist"),
    ("Orders", "/orders"),
    ("Addresses", "/addresses"),
)
SORTS = {
    "name": ("Name", "name"),
    "cheap": ("Price: low to high", "price, name"),
    "dear": ("Price: high to low", "price DESC, name"),
    "rating": ("Best rating", "rating DESC, name"),
}
MOST = 99
app = Site("shop", "Corner Shop", NAV, NOTICES)


@app.get("/")
def home() -> str:
    """Show the categories and a few products."""
    counts = db().execute("SELECT category, count(*) AS n FROM product GROUP BY category ORDER BY category").fetchall()
    newest = db().execute("SELECT * FROM product WHERE stock > 0 ORDER BY id DESC LIMIT 6").fetchall()
    return render_template("home.html", counts=counts, newest=newest)


@app.get("/products")
def products() -> str:
    """Search, filter and sort the products."""
    filters = {key: request.args.get(key, "") for key in ("q", "category", "colour", "sort")}
    sql = "SELECT *, (SELECT avg(stars) FROM review WHERE product = product.id) AS rating FROM product WHERE 1"
    values: list[str] = []
    for word in filters["q"].split()[:8]:
        sql += " AND name LIKE ? ESCAPE '\\'"
        values.append(like(word))
    for name in ("category", "colour"):
        if filters[name]:
            sql += f" AND {name} = ?"
            values.append(filters[name])
    if request.args.get("stock"):
        sql += " AND stock > 0"
    sql += f" ORDER BY {SORTS.get(filters['sort'], SORTS['name'])[1]}"
    colours = [row[0] for row in db().execute("SELECT DISTINCT colour FROM product ORDER BY colour")]
    return render_template(
        "products.html",
        found=slice_of(sql, values),
        filters=filters,
        categories=[("", "All categories"), *((name, name) for name in CATEGORIES)],
        colours=[("", "All colours"), *((name, name) for name in colours)],
        sorts=[(key, label) for key, (label, _) in SORTS.items()],
    )


def _product(id: int) -> sqlite3.Row:
    return db().execute("SELECT * FROM product WHERE id = ?", (id,)).fetchone() or abort(404, "There is no such product.")


@app.get("/product/<int:id>")
def product(id: int) -> str:
    """Show one product with its reviews."""
    return render_template("product.html", errors=[], **_product_context(id))


def _product_context(id: int) -> dict[str, object]:
    reviews = db().execute("SELECT * FROM review WHERE product = ? ORDER BY day DESC, id DESC", (id,)).fetchall()
    return {
        "product": _product(id),
        "reviews": reviews,
        "names": {person.username: person.name for person in state().setting.people},
        "wished": db().execute("SELECT 1 FROM wish WHERE product = ?", (id,)).fetchone(),
    }


@app.post("/product/<int:id>/cart")
@needs_login
def add(id: int) -> ResponseReturnValue:
    """Put a product into the cart."""
    product_row, count = _product(id), number(field("quantity"), 1, MOST)
    row = db().execute("SELECT quantity FROM cart WHERE product = ?", (id,)).fetchone()
    if count is None:
        return refused("product.html", [f"Quantity must be a whole number from 1 to {MOST}."], **_product_context(id))
    total = count + (row[0] if row else 0)
    if total > product_row["stock"]:
        left = f"Only {product_row['stock']} in stock" if product_row["stock"] else "This product is out of stock"
        return refused("product.html", [f"{left}; your cart would hold {total}."], **_product_context(id))
    db().execute("INSERT OR REPLACE INTO cart VALUES (?, ?)", (id, total))
    return done("added", "cart")


@app.post("/product/<int:id>/wish")
@needs_login
def wish(id: int) -> ResponseReturnValue:
    """Add a product to the wish list, or remove it."""
    _product(id)
    if field("wish") == "no":
        db().execute("DELETE FROM wish WHERE product = ?", (id,))
        return done("unwished", "wishlist") if field("from") == "list" else done("unwished", "product", id=id)
    db().execute("INSERT OR IGNORE INTO wish VALUES (?)", (id,))
    return done("wished", "product", id=id)


@app.get("/wishlist")
@needs_login
def wishlist() -> str:
    """Show the wish list."""
    rows = db().execute("SELECT product.* FROM wish JOIN product ON product.id = wish.product ORDER BY name").fetchall()
    return render_template("wishlist.html", rows=rows)


@app.route("/product/<int:id>/review", methods=["GET", "POST"])
@needs_login
def review(id: int) -> ResponseReturnValue:
    """Write a review, or change the user's existing review."""
    context = _product(id)
    own = db().execute("SELECT * FROM review WHERE product = ? AND username = ?", (id, me().username)).fetchone()
    if request.method == "GET":
        values = dict(own) if own else {"stars": "", "title": "", "body": ""}
        return render_template("review.html", product=context, own=own, errors=[], values=values)
    values = {"stars": field("stars"), "title": field("title", 100), "body": field("body")}
    stars = number(values["stars"], 1, 5)
    errors = [] if stars else ["Choose a number of stars."]
    errors += [f"{name.title()} must not be empty." for name in ("title", "body") if not values[name]]
    if errors:
        return refused("review.html", errors, product=context, own=own, values=values)
    today = f"{state().now:%Y-%m-%d}"
    if own:
        sql = "UPDATE review SET stars = ?, title = ?, body = ?, day = ? WHERE id = ?"
        db().execute(sql, (stars, values["title"], values["body"], today, own["id"]))
    else:
        sql = "INSERT INTO review (product, username, stars, title, body, day) VALUES (?, ?, ?, ?, ?, ?)"
        db().execute(sql, (id, me().username, stars, values["title"], values["body"], today))
    return done("reviewed", "product", id=id)


@app.post("/product/<int:id>/review/delete")
@needs_login
def unreview(id: int) -> ResponseReturnValue:
    """Delete the user's own review."""
    _product(id)
    db().execute("DELETE FROM review WHERE product = ? AND username = ?", (id, me().username))
    return done("unreviewed", "product", id=id)


def _cart() -> list[sqlite3.Row]:
    sql = "SELECT product.*, quantity, quantity * price AS sum FROM cart JOIN product ON product.id = product ORDER BY name"
    return db().execute(sql).fetchall()


@app.get("/cart")
@needs_login
def cart() -> str:
    """Show the cart."""
    return render_template("cart.html", rows=_cart(), errors=[])


@app.post("/cart/<int:id>")
@needs_login
def change(id: int) -> ResponseReturnValue:
    """Change a product's quantity in the cart; 0 removes it."""
    if db().execute("SELECT 1 FROM cart WHERE product = ?", (id,)).fetchone() is None:
        abort(404, "This product is not in your cart.")
    count, stock = number(field("quantity"), 0, MOST), _product(id)["stock"]
    if count is None or count > stock:
        return refused("cart.html", [f"Quantity must be a whole number from 0 to {min(MOST, stock)}."], rows=_cart())
    if count == 0:
        db().execute("DELETE FROM cart WHERE product = ?", (id,))
        return done("removed", "cart")
    db().execute("UPDATE cart SET quantity = ? WHERE product = ?", (count, id))
    return done("updated", "cart")


@app.route("/checkout", methods=["GET", "POST"])
@needs_login
def checkout() -> ResponseReturnValue:
    """Choose address and shipping for the cart, and place the order."""
    rows = _cart()
    places = db().execute("SELECT * FROM address ORDER BY label").fetchall()
    context = {
        "rows": rows,
        "places": [("", "Choose"), *((row["id"], f"{row['label']}: {row['street']}, {row['city']}") for row in places)],
        "ways": [("", "Choose"), *((name, f"{name} ({money(cost)})") for name, cost in SHIPPING.items())],
    }
    if request.method == "GET":
        return render_template("checkout.html", errors=[], message="", **context)
    place = next((row for row in places if str(row["id"]) == field("address")), None)
    errors = [] if rows else ["Your cart is empty."]
    errors += [] if place else ["Choose an address."]
    errors += [] if field("shipping") in SHIPPING else ["Choose a shipping method."]
    errors += [f"Only {row['stock']} of {row['name']} in stock." for row in rows if row["quantity"] > row["stock"]]
    if errors or place is None:
        return refused("checkout.html", errors, message=field("message", 200), **context)
    address = ", ".join((place["street"], place["city"], place["postcode"]))
    values = (f"{state().now:%Y-%m-%d}", "Processing", address, field("shipping"), field("message", 200))
    id = db().execute("INSERT INTO purchase VALUES (NULL, ?, ?, ?, ?, ?)", values).lastrowid
    for row in rows:
        db().execute("INSERT INTO line VALUES (?, ?, ?, ?)", (id, row["id"], row["quantity"], row["price"]))
        db().execute("UPDATE product SET stock = stock - ? WHERE id = ?", (row["quantity"], row["id"]))
    db().execute("DELETE FROM cart")
    return done("ordered", "order", id=id)


_TOTAL = "(SELECT sum(quantity * price) FROM line WHERE purchase = purchase.id)"


@app.get("/orders")
@needs_login
def orders() -> str:
    """List the orders, the latest first."""
    sql = f"SELECT *, {_TOTAL} AS total FROM purchase ORDER BY day DESC, id DESC"
    return render_template("orders.html", found=slice_of(sql), shipping=SHIPPING)


@app.get("/orders/<int:id>")
@needs_login
def order(id: int) -> str:
    """Show one order."""
    purchase = db().execute(f"SELECT *, {_TOTAL} AS total FROM purchase WHERE id = ?", (id,)).fetchone()
    if purchase is None:
        abort(404, "There is no such order.")
    sql = """SELECT name, product, quantity, line.price AS price FROM line JOIN product ON product.id = product
        WHERE purchase = ? ORDER BY name"""
    return render_template("order.html", order=purchase, lines=db().execute(sql, (id,)).fetchall(), shipping=SHIPPING)


@app.post("/orders/<int:id>/cancel")
@needs_login
def cancel(id: int) -> ResponseReturnValue:
    """Cancel an order with the status Processing, and return its products to stock."""
    purchase = db().execute("SELECT status FROM purchase WHERE id = ?", (id,)).fetchone()
    if purchase is None or purchase["status"] != "Processing":
        abort(404, "There is no such order that can be cancelled.")
    db().execute("UPDATE purchase SET status = 'Cancelled' WHERE id = ?", (id,))
    for row in db().execute("SELECT product, quantity FROM line WHERE purchase = ?", (id,)).fetchall():
        db().execute("UPDATE product SET stock = stock + ? WHERE id = ?", (row["quantity"], row["product"]))
    return done("cancelled", "order", id=id)


@app.get("/addresses")
@needs_login
def addresses() -> str:
    """List the addresses."""
    return render_template("addresses.html", rows=db().execute("SELECT * FROM address ORDER BY label").fetchall())


@app.route("/addresses/new", methods=["GET", "POST"])
@app.route("/addresses/<int:id>", methods=["GET", "POST"])
@needs_login
def address(id: int | None = None) -> ResponseReturnValue:
    """Add an address if `id` is None, else change an address."""
    names = ("label", "street", "city", "postcode")
    address_row = db().execute("SELECT * FROM address WHERE id = ?", (id,)).fetchone()
    if id is not None and address_row is None:
        abort(404, "There is no such address.")
    if request.method == "GET":
        values = {name: address_row[name] if address_row else "" for name in names}
        return render_template("address.html", id=id, values=values, errors=[])
    values = {name: field(name, 100) for name in names}
    errors = [f"{name.title()} must not be empty." for name in names if not values[name]]
    if values["postcode"] and not (
        values["postcode"].isascii() and values["postcode"].isdigit() and len(values["postcode"]) == 5
    ):
        errors.append("Postcode must be five digits.")
    sql = "SELECT 1 FROM address WHERE label = ? AND id IS NOT ?"
    if db().execute(sql, (values["label"], id)).fetchone():
        errors.append("There is another address with this label.")
    if errors:
        return refused("address.html", errors, id=id, values=values)
    if id is None:
        db().execute("INSERT INTO address VALUES (NULL, ?, ?, ?, ?)", tuple(values.values()))
    else:
        sql = "UPDATE address SET label = ?, street = ?, city = ?, postcode = ? WHERE id = ?"
        db().execute(sql, (*values.values(), id))
    return done("address", "addresses")


@app.post("/addresses/<int:id>/delete")
@needs_login
def forget(id: int) -> ResponseReturnValue:
    """Delete an address."""
    db().execute("DELETE FROM address WHERE id = ?", (id,))
    return done("noaddress", "addresses")
