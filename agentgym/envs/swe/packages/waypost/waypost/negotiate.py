"""What a client would like best: media types and languages with weights."""


def parse_accept(header):
    """Return (value, weight) pairs of a header, the heaviest first; equals in their order, weights of 0 left out."""
    found = []
    for piece in header.split(","):
        value, *parameters = [part.strip() for part in piece.split(";")]
        if not value:
            continue
        weight = 1.0
        for parameter in parameters:
            name, _, number = parameter.partition("=")
            if name.strip() == "q":
                weight = _weight(number)
        found.append((value.lower(), weight))
    found.sort(key=lambda pair: -pair[1])
    return [pair for pair in found if pair[1] > 0]


def _weight(text):
    try:
        return min(max(float(text), 0.0), 1.0)
    except ValueError:
        return 0.0


def _fits(offer, wanted):
    kind, _, sub = wanted.partition("/")
    offered_kind, _, offered_sub = offer.lower().partition("/")
    return kind in ("*", offered_kind) and sub in ("*", "", offered_sub)


def best_type(header, offers):
    """Return the offered media type that a client likes best, the first of equals; None where it takes none.

    What is said about a type exactly goes before what is said about `kind/*`, and that before `*/*`. A client that says
    nothing takes the first.
    """
    if not header.strip():
        return offers[0] if offers else None
    wishes = parse_accept(header)
    best, best_weight = None, 0.0
    for offer in offers:
        fitting = [(value.count("*"), -weight) for value, weight in wishes if _fits(offer, value)]
        if not fitting:
            continue
        weight = -min(fitting)[1]
        if weight > best_weight:
            best, best_weight = offer, weight
    return best


def best_language(header, offers, default=None):
    """Return the offered language that a client likes best; `en` fits `en-GB` and the other way round, exact ones first."""
    for wanted, _ in parse_accept(header):
        for offer in offers:
            if offer.lower() == wanted:
                return offer
        for offer in offers:
            if wanted == "*" or offer.lower().split("-")[0] == wanted.split("-")[0]:
                return offer
    return default
