"""One episode: reset, step, and what a step tells. Run: python examples/01_one_episode.py"""

import gymnasium as gym

import agentgym  # registers rlvr/*


def main() -> None:
    env = gym.make("rlvr/Search-v0", split="train")
    observation, info = env.reset(seed=7)
    print(observation, "\n")

    # An action is text. This environment has tools, so an action is one call, in any of three spellings.
    print("tools:", ", ".join(env.tools))
    entity = env.task.instruction
    observation, reward, terminated, truncated, info = env.step(f"search[{entity}]")
    print(observation, "\n")
    print(f"valid {info['valid']}  state {info['state_key']}  metrics {info['metrics']}\n")

    # The expert knows only what has been shown, and is asked anew after every turn.
    while not (terminated or truncated):
        action = next(env.expert())
        observation, reward, terminated, truncated, info = env.step(action)
        print(f"> {action}\n{observation}\n")
    print(f"reward {reward}  success {info['success']}  ended by {info['reason']}  (agentgym {agentgym.__version__})")


if __name__ == "__main__":
    main()
