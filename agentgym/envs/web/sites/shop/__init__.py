"""A shop site: products, cart, orders, reviews, wish list, addresses."""
