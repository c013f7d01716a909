"""A shop: products, cart, orders, reviews, wish list, addresses."""
