"""Seeds, determinism and isolation of episodes, by episodes that are played again."""

import time
from typing import Any

from openenv.validation.graders import Subject

from rlvr_openenv_graders.base import ServedGrader
from rlvr_openenv_graders.wire import Refused, Served, difference

SEEDS = (0, 1, 2, 2**32 - 1)
"""Seeds that are tried beside the plan's; 0 is one that `seed or …` loses."""
AGAIN = 3
"""Times that an episode is played again."""
LATER = 1.1
"""Seconds between two of them, so that a clock shows."""


class SeedControl(ServedGrader):
    """The public plan has equal answers after equal seeds, in new sessions and as a second episode of a session.

    A seed need not change anything: an environment without chance passes, and `measured` counts different episodes.
    """

    check_id = "runtime.seed_control"
    remediation = "Draw all chance from a generator that reset() makes from its seed, 0 included."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play the plan with each seed three times."""
        found = list[str]()
        episodes = set[str]()
        for seed in dict.fromkeys((served.plan.reset.seed, *SEEDS)):
            reset = served.arguments(seed=seed)
            first = served.episode(reset)
            episodes.add(str(first[::2]))
            if where := difference(first, served.episode(reset)):
                found.append(f"seed {seed}: two sessions differ ({where})")
                continue
            with served.session() as wire:
                wire.reset(**served.arguments(seed=seed + 1 if seed < 2**32 - 1 else 5))
                if where := difference(first, served.episode(reset, wire=wire)):
                    found.append(f"seed {seed}: a second episode of a session differs ({where})")
        return found, {"seeds": len(SEEDS) + 1, "different_episodes": len(episodes)}


class EpisodeDeterminism(ServedGrader):
    """The public plan has equal answers and states whenever it is played in a new session."""

    check_id = "runtime.episode_determinism"
    remediation = "Let nothing but the seed and the actions decide an answer: no clock, address, counter or set order."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play the plan several times."""
        first = served.episode()
        for number in range(AGAIN):
            time.sleep(LATER)
            if where := difference(first, served.episode()):
                return [f"played again ({number + 2}), {where}"], {"episodes": number + 2}
        return [], {"episodes": AGAIN + 1}


class EpisodeIsolation(ServedGrader):
    """Nothing of an episode reaches another: the next one of its session, or one that is played at the same time."""

    check_id = "runtime.episode_isolation"
    remediation = "Set every attribute of an episode in reset(), and share nothing that a step changes between instances."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Play the plan after another episode of the session, and while another session acts."""
        found, alone, other = list[str](), served.episode(), served.arguments(seed=served.plan.reset.seed ^ 1)
        with served.session() as wire:
            served.episode(other, wire=wire)
            if where := difference(alone, served.episode(wire=wire)):
                found.append(f"after an episode of the same session, {where}")
        measured: dict[str, Any] = {"interleaved": True}
        with served.session() as wire:
            try:
                neighbor = served.session()
            except Refused:  # a server of one session
                return found, measured | {"interleaved": False}
            with neighbor:
                answers = [wire.reset(**served.arguments())]
                done = neighbor.reset(**other).get("done")
                answers.append(wire.state())
                for action in served.plan.actions:
                    if answers[-2].get("done") is True:
                        break
                    done = neighbor.step(action).get("done") if done is not True else neighbor.reset(**other).get("done")
                    answers += [wire.step(action), wire.state()]
                if where := difference(alone, answers):
                    found.append(f"while another session acts, {where}")
        return found, measured
