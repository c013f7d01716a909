"""A taskset of verifiers with an environment of its own, which answers every reply."""

import verifiers.v1 as vf


class CountTask(vf.Task[vf.TaskData]):
    pass


class CountTaskset(vf.Taskset[CountTask, vf.TasksetConfig]):
    INFINITE = True

    def load(self):
        number = 0
        while True:
            yield CountTask(vf.TaskData(name=str(number)), self.config.task)
            number += 1


class CountConfig(vf.EnvConfig):
    policy: vf.AgentConfig = vf.AgentConfig()


class CountEnv(vf.Env[CountConfig]):
    """Say what follows, three times; it fails on the reply `break`, on any reply to 13, and on an empty one to 11."""

    async def run(self, task, agents):
        right, number = 0, int(task.data.name)
        async with agents.policy.interaction(task) as interaction:
            segment = await interaction.turn(f"What follows {number}?")
            for step in range(3):
                if segment.terminated or segment.last_reply == "break" or number == 13:
                    raise RuntimeError("broken")
                if number == 11 and not segment.last_reply:
                    raise RuntimeError("broken")
                right += segment.last_reply == str(number + step + 1)
                if step < 2:
                    segment = await interaction.turn(f"And {number + step + 1}?")
        interaction.trace.record_reward("right", right / 3)


__all__ = ["CountEnv", "CountTaskset"]
