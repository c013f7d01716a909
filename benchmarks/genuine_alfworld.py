"""Plays the genuine ALFWorld engine for parity.py; runs in the separate environment and knows nothing of agentgym.

One JSON object a line on standard input, `{"load": PATH}` or `{"step": COMMAND}`; one a line comes back.
"""

import json
import os
import sys
import time

import textworld
from alfworld.agents.environment.alfred_tw_env import AlfredDemangler


def main() -> None:
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # the planner prints; what it prints must not mix with the answers
    env = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            infos = textworld.EnvInfos(won=True, admissible_commands=True)
            env = textworld.start(request["load"], infos, wrappers=[AlfredDemangler()])
            begun = time.perf_counter()
            state, score, done = env.reset(), None, False
        else:
            begun = time.perf_counter()
            state, score, done = env.step(request["step"])
        seconds = time.perf_counter() - begun
        answer = {
            "text": state["feedback"],
            "admissible": state["admissible_commands"],
            "won": state["won"],
            "score": score,
            "done": done,
            "seconds": seconds,
        }
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
