"""Selection of the episodes on a page: whole groups, spread evenly over the run, in display order."""

from agentgym.report.run_folder import TRAINED, Row

SHARES = {"fault": 1, "failed": 2, "succeeded": 1}
"""Relative shares of a page: groups with a fault, groups with a failure, and groups with successes only."""


def select(rows: list[Row], limit: int) -> list[Row]:
    """Return the rows of a selection of whole groups, at most `limit` rows, in file order.

    The credit of an episode is relative to its group, so a group is shown whole or not at all; only if every group is larger
    than `limit`, the first `limit` rows of one group are shown. Groups with faults and failures are preferred (see
    `SHARES`); each kind is thinned evenly.
    """
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.env, row.group), []).append(row)
    kinds: dict[str, list[list[Row]]] = {name: [] for name in SHARES}
    for group in groups.values():
        outcomes = {row.outcome for row in group}
        kinds[next(name for name in SHARES if name in outcomes)].append(group)
    order = [
        ((rank + 1) / SHARES[name], place, members[place])
        for name, members in kinds.items()
        for rank, place in enumerate(spread(len(members)))
    ]
    selected: list[Row] = []
    for _, _, group in sorted(order, key=lambda entry: entry[:2]):
        if len(selected) + len(group) <= limit:
            selected += group
    if not selected and order:
        selected = min(order, key=lambda entry: entry[:2])[2][:limit]
    return sorted(selected, key=lambda row: row.offset)


def spread(count: int) -> list[int]:
    """Return 0 … count - 1 in bit-reversed order, so that every prefix is spread evenly."""
    width = max(1, (count - 1).bit_length())
    return sorted(range(count), key=lambda i: int(f"{i:0{width}b}"[::-1], 2))


def display_order(rows: list[Row]) -> list[Row]:
    """Return rows in display order: last evaluation first, training last, groups together."""
    parts = list(dict.fromkeys((row.part, row.step) for row in rows))
    newest = {part: -i for i, part in enumerate(parts)}
    first = {(row.env, row.group): row.offset for row in reversed(rows)}
    return sorted(
        rows,
        key=lambda row: (
            row.part in TRAINED,
            newest[row.part, row.step],
            first[row.env, row.group],
            row.attempt,
            row.offset,
        ),
    )
