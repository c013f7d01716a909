"""What the environment answers by itself: the simulator does not hear of it, and what that asks stays open."""

HELP = (
    "Actions: look around, look at THING, look in THING, inventory, task, open THING, close THING, activate THING, "
    "deactivate THING, go PLACE, pick up THING, put down THING, move THING to THING, pour THING in THING, dunk THING in "
    "THING, mix THING, connect THING to THING, disconnect THING, use THING on THING, read THING, eat THING, flush THING, "
    "focus on THING, wait (ten turns), wait1 (one turn), reset task. Where a name fits several things, a number is asked."
)
LONGEST = 200
"""Characters of an action."""
NO_ACTION = f" is not an action: say one in at most {LONGEST} letters, as help explains."
"""How the answer to what cannot be said to the simulator ends, after the beginning of it."""


def own(text: str) -> bool:
    """Whether an answer is the environment's and not the simulator's."""
    return text == HELP or text.endswith(NO_ACTION)
