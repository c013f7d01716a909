"""Answers that the environment gives without asking the simulator, whose pending question stays open."""

HELP = (
    "Actions: look around, look at THING, look in THING, inventory, task, open THING, close THING, activate THING, "
    "deactivate THING, go PLACE, pick up THING, put down THING, move THING to THING, pour THING in THING, dunk THING in "
    "THING, mix THING, connect THING to THING, disconnect THING, use THING on THING, read THING, eat THING, flush THING, "
    "focus on THING, wait (ten turns), wait1 (one turn), reset task. Where a name fits several things, a number is asked."
)
LONGEST = 200
"""Maximum length of an action in characters."""
NO_ACTION = f" is not an action: say one in at most {LONGEST} letters, as help explains."
"""Ending of the answer to an action that is empty, too long, or not printable ASCII text."""


def own(text: str) -> bool:
    """Return True if an answer comes from the environment rather than from the simulator."""
    return text == HELP or text.endswith(NO_ACTION)
