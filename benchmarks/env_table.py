"""What each environment costs at its default settings, and who else has its kind: a table for docs/environments/README.md.

    python benchmarks/env_table.py [--seconds 1.0] [--only functions memory]
    python benchmarks/env_table.py --one rlvr/ALFWorld-v0 --data FOLDER      one environment, as a line of JSON

Each environment is measured in a process of its own: steps of the expert's episodes (resets left out) per second of CPU, the
growth of that process's memory when the environment is made and played, and the length of an expert's episode, observations
and actions, in tokens of a stand-in for Qwen2.5's tokenizer. An oracle plays where there is no expert. Waiting for a
browser or a sandbox takes no CPU time here.
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from statistics import mean

from agentgym import registry
from agentgym.contract.env_under_test import has

PEERS = {
    "Household": "ALFWorld itself; verl-agent and AgentGym over it",
    "ALFWorld": "ALFWorld itself; verl-agent and AgentGym over it",
    "Search": "NeMo Gym, verifiers (`wiki_search`), SkyRL, AgentGym, verl-agent",
    "Code": "NeMo Gym, GEM, SkyRL (`lcb`)",
    "CodeDialogue": "ColBench (SWEET-RL)",
    "SQL": "NeMo Gym (`spider2_lite`), SkyRL (`text2sql`), AgentGym (BIRD)",
    "Math": "NeMo Gym, GEM, SkyRL, verifiers",
    "Terminal": "Harbor, NeMo Gym, OpenEnv (`tbench2`)",
    "Harbor": "Harbor itself; SkyRL, TRL, verifiers, NeMo Gym, rLLM, tinker-cookbook",
    "SearchR1": "Search-R1, SkyRL, verl-agent",
    "Shop": "WebShop itself; verl-agent, AgentGym, GEM over it",
    "WebShop": "WebShop itself; verl-agent, AgentGym, GEM over it",
    "Web": "WebArena by BrowserGym and AgentGym",
    "SWE": "uni-agent, SkyRL, NeMo Gym, Harbor",
    "SWEBench": "uni-agent, SkyRL, NeMo Gym, Harbor",
    "MiniWoB": "MiniWoB++ itself, BrowserGym, TRL",
    "ReasoningGym": "the package itself; GEM, OpenEnv, verifiers",
    "GuessNumber": "GEM",
    "FrozenLake": "Gymnasium",
    "TicTacToe": "TextArena, OpenSpiel",
    "ConnectFour": "TextArena, OpenSpiel",
    "KuhnPoker": "OpenSpiel, TextArena",
    "Negotiation": "TextArena",
    "Sokoban": "GEM, verl-agent",
    "BabyAI": "minigrid itself, AgentGym",
    "TextWorld": "the package itself",
    "ScienceWorld": "the package itself, AgentGym",
    "TextCraft": "AgentGym",
    "TwentyQuestions": "LMRL Gym",
    "Desk": "tau2-bench",
    "Functions": "NeMo Gym (`workplace_assistant`, `toolsandbox`, `xlam_fc`), training-gym (BFCL)",
    "Instructions": "NeMo Gym (`instruction_following`, `ifbench`, `multichallenge`, `iheval`), tinker-cookbook",
    "Memory": "NeMo Gym (`longmemeval`, `mrcr`, `ruler2`), uni-agent (a pull request)",
    "Wordle": "GEM, verifiers, OpenEnv, AgentGym",
}
"""Who else has an environment of the kind."""


def measure(name: str, seconds: float, data: str) -> dict[str, float]:
    """Return steps per second of CPU, megabytes, and turns and tokens of an expert's episode."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = {"data": data} if data else {}
    env = registry.make(name, **options)
    texts, turns = list[str](), list[int]()
    used, steps, begun = 0.0, 0, time.process_time()
    for task in env.tasks(min(40, env.task_count() or 40)):
        if turns and (used > seconds or time.process_time() - begun > 5 * seconds):
            break
        text, _ = env.reset(seed=0, options={"task": task})
        count = 0
        for action in (env.expert if has(env, "expert") else env.oracle)():
            started = time.process_time()
            observation, *_ = env.step(action)
            used += time.process_time() - started
            text, count = f"{text}\n{action}\n{observation}", count + 1
        texts.append(text)
        turns.append(count)
        steps += count
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    env.close()
    from agentgym.planner.stand_in import stand_in  # after the memory was read: it brings transformers

    tokenizer = stand_in([(name, options)], 0)
    tokens = [len(tokenizer.encode(text)) for text in texts]
    return {"rate": steps / max(used, 1e-9), "memory": (after - before) / 1024, "turns": mean(turns), "tokens": mean(tokens)}


def main() -> None:
    """Print a table, or measure one environment as a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=1.0, help="CPU seconds of steps for each environment")
    parser.add_argument("--only", nargs="*", default=[], help="short names")
    parser.add_argument("--one", help="id of the only environment")
    parser.add_argument("--data", default="", help="its data, with --one")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.seconds, arguments.data)))
        return
    print("| environment | steps per CPU second | MB | expert's turns | tokens of its episode | who else has the kind |")
    print("|---|---|---|---|---|---|")
    for name in registry.ENVS:
        short = name.removeprefix("rlvr/").removesuffix("-v0")
        if arguments.only and short.lower() not in arguments.only:
            continue
        command = [sys.executable, __file__, "--one", name, "--seconds", str(arguments.seconds)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"| `{name}` | not measured here | | | | {PEERS.get(short, '')} |", flush=True)
            continue
        row = json.loads(done.stdout.splitlines()[-1])
        cells = f"{row['rate']:,.0f} | {row['memory']:.0f} | {row['turns']:.1f} | {row['tokens']:,.0f}"
        print(f"| `{name}` | {cells} | {PEERS.get(short, '')} |", flush=True)


if __name__ == "__main__":
    main()
