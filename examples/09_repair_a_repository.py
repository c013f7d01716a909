"""Agents that repair repositories, in sandboxes; hidden tests decide. Run: python examples/09_repair_a_repository.py"""

import agentgym
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.swe.predictions import predictions

TASKS = 2
# What a model would say; for a real one: agentgym.engine("vllm:Qwen/Qwen3-Coder-30B-A3B-Instruct").
SAID = (
    "THOUGHT: Look around first.\n\n```mswea_bash_command\nls && git log --oneline\n```",
    "THOUGHT: Do the tests that are there pass?\n\n```mswea_bash_command\npython -m pytest -q 2>&1 | grep -o 'passed'\n```",
    "THOUGHT: They do, so all is well.\n\n```mswea_bash_command\necho COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT\n```",
)


def main() -> None:
    careless = agentgym.ChatAgent(ScriptedEngine(SAID), prompt="mini-swe")  # one bash block a reply, as mini-swe-agent
    two_at_a_time = agentgym.RolloutConfig(concurrency=2)
    episodes = agentgym.collect(
        careless, "rlvr/SWE-v0", split="test", tasks=TASKS, env_options={"toolset": "bash"}, config=two_at_a_time
    )
    print("\n".join(episodes[0].instruction.splitlines()[:3]))
    for turn in episodes[0].turns:
        print(f"> {turn.action}")
    print(f"careless: {agentgym.success(episodes)}")

    repaired = agentgym.collect(agentgym.OracleAgent(), "rlvr/SWE-v0", split="test", tasks=TASKS, config=two_at_a_time)
    print(f"oracle:   {agentgym.success(repaired)}")
    for made in predictions(repaired, "oracle"):
        changed = [line for line in made["model_patch"].splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
        print(made["instance_id"], *changed, sep="\n  ")


if __name__ == "__main__":
    main()
