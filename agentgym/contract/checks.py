"""The table of checks: name, number of the promise in the contract, and function."""

from collections.abc import Callable

from agentgym.contract import behaviour, hints, repeatability, solutions, tasks
from agentgym.contract.env_under_test import EnvUnderTest

Check = Callable[[EnvUnderTest], str]
"""Function that returns a description of the evidence, or raises Broken or NotChecked."""

CHECKS: dict[str, tuple[int, Check]] = {
    "same again": (1, repeatability.same_again),
    "same elsewhere": (1, repeatability.same_elsewhere),
    "same verdict": (1, repeatability.same_verdict),
    "splits are disjoint": (2, tasks.splits_are_disjoint),
    "answers stay hidden": (2, tasks.answers_stay_hidden),
    "tests stay hidden": (2, tasks.tests_stay_hidden),
    "bad options are refused": (2, tasks.bad_options_are_refused),
    "nasty actions": (3, behaviour.nasty_actions),
    "spellings": (3, behaviour.spellings),
    "info schema": (4, behaviour.info_schema),
    "admissible is valid": (4, behaviour.admissible_is_valid),
    "equal keys": (5, behaviour.equal_keys),
    "looking changes nothing": (5, repeatability.looking_changes_nothing),
    "outcome alone": (6, behaviour.outcome_alone),
    "failure never wins": (6, behaviour.failure_never_wins),
    "horizons": (7, behaviour.horizons),
    "snapshots here": (8, repeatability.snapshots_here),
    "snapshots elsewhere": (8, repeatability.snapshots_elsewhere),
    "chance afresh": (8, repeatability.chance_afresh),
    "oracle solves": (9, solutions.oracle_solves),
    "reference holds": (9, solutions.reference_holds),
    "oracle recovers": (9, solutions.oracle_recovers),
    "expert is fair": (9, solutions.expert_is_fair),
    "expert is good": (9, solutions.expert_is_good),
    "hints": (9, hints.hints),
    "shortcut policies fail": (10, solutions.shortcuts_fail),
    "chance is poor": (10, solutions.chance_is_poor),
    "infrastructure errors": (11, tasks.faults_end_one_episode),
    "made bare": (11, tasks.made_bare),
}

_REPEATED = ("same again",)
RESTS_ON: dict[str, tuple[str, ...]] = {
    "same elsewhere": _REPEATED,
    "splits are disjoint": _REPEATED,
    "equal keys": _REPEATED,
    "looking changes nothing": _REPEATED,
    "failure never wins": _REPEATED,
    "snapshots here": (*_REPEATED, "looking changes nothing"),
    "snapshots elsewhere": (*_REPEATED, "same elsewhere", "snapshots here"),
    "chance afresh": ("snapshots here",),
    "oracle solves": _REPEATED,
    "oracle recovers": (*_REPEATED, "oracle solves"),
    "expert is fair": _REPEATED,
    "expert is good": _REPEATED,
    "hints": (*_REPEATED, "looking changes nothing"),
    "infrastructure errors": _REPEATED,
    "made bare": ("snapshots here",),
}
"""Prerequisites of checks: if a prerequisite is broken, the check is skipped, so that each defect is reported once."""
