"""Two tasksets of verifiers: one turn, and an environment of several."""

import verifiers.v1 as vf


class WordsTask(vf.Task[vf.TaskData]):
    @vf.reward(weight=1.0)
    async def reversed(self, trace) -> float:
        return float(trace.last_reply == self.data.name[::-1])


class WordsTaskset(vf.Taskset[WordsTask, vf.TasksetConfig]):
    def load(self):
        for word in ("maps", "stop", "part"):
            yield WordsTask(vf.TaskData(name=word, system_prompt="Be brief.", prompt=f"Reverse {word}."), self.config.task)


__all__ = ["WordsTaskset"]
