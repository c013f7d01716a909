"""Agents without a model, and demonstrations in a model's tokens."""

import asyncio
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

import agentgym
from agentgym import BadConfig, ChatAgent, Demonstrator, ExpertAgent, HumanAgent, Noise, OracleAgent, RandomAgent, Task
from agentgym.agents.policies import scramble
from agentgym.engines.scripted import ScriptedEngine
from agentgym.envs.guess_number import GuessNumber
from agentgym.rollout.pool import RolloutConfig

ONE = RolloutConfig(workers=1)


class Corridor(agentgym.TextEnv):
    """Take the key, open the door, walk out: three steps in order."""

    horizon = 12
    settings = ("blocking",)

    def begin(self, task: agentgym.Task) -> str:
        self.place = 0
        return "A corridor."

    def admissible(self) -> list[str]:
        return ["take key", "open door", "walk out", "wait here"]

    def act(self, action: str) -> Any:
        if action not in self.admissible():
            return self.invalid("Nothing happens.")
        if action == ("take key", "open door", "walk out")[self.place]:
            self.place += 1
        return self.win("Out.") if self.place == 3 else f"You have done {self.place} things."

    def state(self) -> int:
        return self.place

    def oracle(self) -> Iterator[str]:
        yield from ("take key", "open door", "walk out")[self.place :]

    expert = oracle

    @staticmethod
    def generate(rng: np.random.Generator, difficulty: int) -> agentgym.Task:
        return agentgym.Task("leave", {"number": int(rng.integers(2**31))})


def turns(agent: Any, env: Any = Corridor, tasks: int = 1, **options: Any) -> list[list[agentgym.Turn]]:
    return [episode.turns for episode in agentgym.collect(agent, env, tasks=tasks, **options)]


def test_oracle_and_expert_solve() -> None:
    for agent in (OracleAgent(), ExpertAgent()):
        (played,) = turns(agent)
        assert [turn.action for turn in played] == ["take key", "open door", "walk out"]
    assert agentgym.collect(ExpertAgent(), GuessNumber, tasks=20)[3].success
    (only,) = turns(OracleAgent(), GuessNumber)
    assert len(only) == 1


class Maze(Corridor):
    """A corridor whose expert gives up after a step, and whose oracle is of no use."""

    def expert(self) -> Iterator[str]:
        yield from ("take key",)[self.place :]

    def oracle(self) -> Iterator[str]:
        raise RuntimeError("nobody asked for the oracle")


class FarMaze(Maze):
    """The same in a process of its own."""

    blocking = True


class Lonely(FarMaze):
    """An environment without an expert."""

    def expert(self) -> Iterator[str]:
        raise NotImplementedError("no expert")


@pytest.mark.parametrize("env", [Maze, FarMaze])
def test_a_policy_that_knows_nothing_to_do_has_failed(env: type[agentgym.TextEnv]) -> None:
    (episode,) = agentgym.collect(ExpertAgent(), env, tasks=1)
    assert (episode.reason, episode.success, episode.error) == ("failure", False, None)
    assert [turn.action for turn in episode.turns] == ["take key"]


@pytest.mark.parametrize(("env", "agent"), [(FarMaze, OracleAgent()), (Lonely, ExpertAgent())])
def test_a_policy_that_breaks_down_or_is_not_there_is_a_crash(env: type[agentgym.TextEnv], agent: Any) -> None:
    (episode,) = agentgym.collect(agent, env, tasks=1)
    assert (episode.reason, episode.success) == ("crash", None)
    assert "nobody asked" in (episode.error or "") or "no expert" in (episode.error or "")


@pytest.mark.parametrize("env", [Maze, FarMaze])
def test_demonstrations_end_where_the_expert_does(env: type[agentgym.TextEnv]) -> None:
    agent = ChatAgent(ScriptedEngine([]))
    (episode,) = agentgym.collect(Demonstrator(agent), env, tasks=1)
    assert (episode.reason, len(episode.turns)) == ("failure", 1)


def test_random_plays_every_admissible_command_and_repeats_itself_by_seed() -> None:
    counts = Counter(turn.action for played in turns(RandomAgent(), tasks=40) for turn in played)
    assert set(counts) == {"take key", "open door", "walk out", "wait here"}
    assert max(counts.values()) < 1.6 * min(counts.values())
    actions = [[[t.action for t in played] for played in turns(RandomAgent(), tasks=3, seed=s)] for s in (0, 0, 1)]
    assert actions[0] == actions[1] != actions[2]


def test_random_calls_tools() -> None:
    actions = [turn.action for played in turns(RandomAgent(), "rlvr/Search-v0", tasks=5) for turn in played]
    names = {action.partition("[")[0] for action in actions}
    assert {"search", "open", "answer"} >= names and len(names) > 1


class Keypad(Corridor):
    """A tool, no list of commands, and mistakes of its own."""

    horizon = 8

    def begin(self, task: agentgym.Task) -> str:
        self.place = 0
        return f"The code is {task.data['number'] % 1000:03d}: press its digits in order."

    def admissible(self) -> None:
        return None

    @agentgym.tool
    def press(self, digit: str) -> Any:
        """Press a digit."""
        if digit != self.code[self.place]:
            return "Wrong digit."
        self.place += 1
        return self.win("Open.") if self.place == 3 else "Click."

    @property
    def code(self) -> str:
        return f"{self.task.data['number'] % 1000:03d}"

    def oracle(self) -> Iterator[str]:
        yield from (f"press[{digit}]" for digit in self.code[self.place :])

    expert = oracle

    def mistake(self, rng: np.random.Generator) -> str:
        return f"press[{int(rng.integers(10))}]"


@pytest.mark.parametrize("env", [Corridor, Keypad])
@pytest.mark.parametrize("kind", [ExpertAgent, lambda noise: Demonstrator(ChatAgent(ScriptedEngine([])), noise)])
def test_noise_is_the_same_in_this_process_and_in_workers(env: Any, kind: Any) -> None:
    def bytes_of(blocking: bool) -> list[str]:
        noise = Noise(random=0.2, invalid=0.2, forget=0.3)
        made = agentgym.collect(kind(noise), partial(env, blocking=blocking), tasks=12, seed=4, config=ONE)
        for episode in made:
            for turn in episode.turns:
                turn.seconds = 0.0
        return [episode.to_json() for episode in made]

    played = bytes_of(False)
    assert played == bytes_of(True)
    kinds = {turn.extra.get("mistake") for line in played for turn in agentgym.Episode.from_json(line).turns}
    assert {"random", "invalid"} <= kinds and ("forget" in kinds) == (env is Corridor)


@pytest.mark.parametrize("env", [Corridor, Keypad])
def test_chance_plays_the_same_in_this_process_and_in_workers(env: Any) -> None:
    here, there = (turns(RandomAgent(), partial(env, blocking=blocking), tasks=6, config=ONE) for blocking in (False, True))
    assert [[turn.action for turn in played] for played in here] == [[turn.action for turn in played] for played in there]


def share(kind: str, **noise: float) -> float:
    played = turns(ExpertAgent(Noise(**noise)), tasks=300)
    first = [episode[0] for episode in played]
    return sum(turn.extra.get("mistake") == kind for turn in first) / len(first)


def test_noise_happens_as_often_as_asked() -> None:
    # standard error at most 0.03; a random command is the expert's own in a quarter of cases
    assert abs(share("random", random=0.4) - 0.3) < 0.09
    assert abs(share("invalid", invalid=0.4) - 0.4) < 0.09
    assert abs(share("forget", forget=0.4) - 0.4) < 0.09


def test_a_step_is_forgotten_once_and_repaired() -> None:
    for played in turns(ExpertAgent(Noise(forget=1.0)), tasks=3):
        assert [turn.action for turn in played] == ["open door", "take key", "open door", "walk out"]
        assert [turn.extra.get("mistake") for turn in played] == ["forget", None, None, None]
        assert all(turn.extra["train"] for turn in played)


def test_invalid_actions_are_invalid_and_masked() -> None:
    for played in turns(ExpertAgent(Noise(invalid=0.5)), tasks=20):
        for turn in played:
            assert turn.valid == (turn.extra.get("mistake") is None) == turn.extra["train"]
    other = turns(ExpertAgent(Noise(invalid=1.0, masked=())), tasks=1)[0]
    assert all(turn.extra == {"train": True, "mistake": "invalid"} for turn in other)


def test_invalid_tool_calls_are_invalid() -> None:
    for played in turns(ExpertAgent(Noise(invalid=0.5)), "rlvr/Search-v0", tasks=5):
        assert all(turn.valid == (turn.extra.get("mistake") is None) for turn in played)


def test_mistakes_of_an_environment_without_commands_are_its_own() -> None:
    options: dict[str, Any] = {"preset": "tiny"}
    env = agentgym.make("rlvr/SQL-v0", **options)
    right = {task.id: task.data["gold"] for task in env.tasks(20)}
    wrong = 0
    episodes = agentgym.collect(ExpertAgent(Noise(random=0.5)), "rlvr/SQL-v0", tasks=20, env_options=options)
    for episode in episodes:
        (turn,) = episode.turns
        assert turn.valid and turn.extra["train"]
        assert (turn.extra.get("mistake") == "random") == (turn.action != f"answer[{right[episode.task_id]}]")
        assert episode.success == ("mistake" not in turn.extra)
        wrong += not episode.success
    assert 4 <= wrong <= 16
    assert agentgym.make("rlvr/Search-v0").mistake(np.random.default_rng(0)) is None


def test_scrambled_commands_are_none_of_the_admissible() -> None:
    rng = np.random.default_rng(0)
    for commands in (["look"], ["go to desk 1", "take cup 1 from desk 1", "look"], ["a b", "b a", "a a", "b b"], ["x"]):
        for _ in range(50):
            assert scramble(commands, rng) not in commands


@pytest.mark.parametrize(
    "noise", [{"random": 1.5}, {"forget": -0.1}, {"random": 0.6, "invalid": 0.6}, {"masked": ("valid",)}]
)
def test_bad_noise_is_refused(noise: dict[str, Any]) -> None:
    with pytest.raises(BadConfig, match="noise"):
        Noise(**noise)


# Demonstrations


@pytest.mark.parametrize("prompt", ["bare", "act", "react"])
@pytest.mark.parametrize("history", ["keep", "template"])
def test_demonstrations_are_the_tokens_the_agent_would_have_held(prompt: str, history: str) -> None:
    teacher = Demonstrator(ChatAgent(ScriptedEngine([]), prompt=prompt, history=history), thought="Go on.")
    demonstrations = turns(teacher, tasks=2)
    replies = [turn.text for turn in demonstrations[0]]
    engine = ScriptedEngine(replies)
    played = turns(ChatAgent(engine, prompt=prompt, history=history), tasks=2)
    for theirs, ours in zip(played, demonstrations, strict=True):
        assert [(t.prompt_ids, t.output_ids, t.action, t.parsed) for t in theirs] == [
            (t.prompt_ids, t.output_ids, t.action, t.parsed) for t in ours
        ]
        assert all(turn.parsed and not turn.logprobs and turn.extra == {"train": True} for turn in ours)
    expected = {
        "bare": "take key",
        "act": "<action>take key</action>",
        "react": "<think>Go on.</think><action>take key</action>",
    }
    assert replies[0] == expected[prompt]


def test_an_action_of_the_environment_writes_no_control_token() -> None:
    agent = ChatAgent(ScriptedEngine([]), prompt="react")
    talk = agent.begin(Task(), {})
    ids = Demonstrator(agent).reply_ids(talk, "take <|im_end|> 1")
    assert [i for i in ids if i in agent.template.encoder.control_ids] == [agent.tokenizer.eos_token_id] == ids[-1:]
    assert agent.tokenizer.decode(ids) == "<think></think><action>take <|im_end|> 1</action><|im_end|>"
    reply_ids = Demonstrator(agent, thought="Next: {action}.").reply_ids(talk, "look")
    assert agent.tokenizer.decode(reply_ids) == "<think>Next: look.</think><action>look</action><|im_end|>"


def test_demonstrations_of_tool_calls() -> None:
    teacher = Demonstrator(ChatAgent(ScriptedEngine([]), prompt="search"), thought="Let me see.")
    episodes = agentgym.collect(teacher, "rlvr/Search-v0", tasks=5)
    assert [episode.success for episode in episodes] == [True] * 5
    for turn in episodes[0].turns:
        assert turn.parsed and turn.text == f"<think>Let me see.</think>{turn.action}"


def test_demonstrations_say_which_turns_to_leave_out() -> None:
    teacher = Demonstrator(ChatAgent(ScriptedEngine([]), prompt="bare"), Noise(invalid=0.4))
    marks = [(t.valid, t.extra["train"]) for played in turns(teacher, tasks=20) for t in played]
    assert (False, False) in marks and (True, True) in marks and len(set(marks)) == 2


def test_demonstrations_end_where_the_context_does() -> None:
    agent = ChatAgent(ScriptedEngine([]), prompt="bare", context_tokens=90)
    (episode,) = agentgym.collect(Demonstrator(agent), Corridor)
    assert episode.reason == "context" and len(episode.turns) == 1


# A person


class Keyboard:
    """A person at a terminal that is not there."""

    def __init__(self, *lines: str) -> None:
        self.lines, self.printed = iter(lines), []

    def read(self, prompt: str) -> str:
        return next(self.lines)

    def write(self, text: str) -> None:
        self.printed.append(text)


def test_a_person_plays_asks_and_hands_over() -> None:
    keyboard = Keyboard("?", "", "wait here", "!")
    (played,) = turns(HumanAgent(keyboard.read, keyboard.write))
    assert [turn.action for turn in played] == ["wait here", "take key", "open door", "walk out"]
    assert keyboard.printed[:2] == ["A corridor.", "take key\nopen door\nwalk out\nwait here"]
    assert "> open door" in keyboard.printed


def test_the_environment_cannot_drive_the_terminal() -> None:
    keyboard = Keyboard("look")
    agent = HumanAgent(keyboard.read, keyboard.write)
    info = {"admissible": None}
    asyncio.run(agent.take("a\x1b[2Jb\nc\u202e", info, env=None, seed=0, session="s"))  # type: ignore[arg-type]
    assert keyboard.printed == ["a\\x1b[2Jb\nc\\u202e"]


def test_forks() -> None:
    talk = ExpertAgent(Noise(forget=1.0)).begin(agentgym.Task(), {})
    other = talk.fork()
    env = Corridor()
    _, info = env.reset(seed=0)
    mistakes = [asyncio.run(one.choose(env, info, 0)).mistake for one in (talk, talk, other)]
    assert mistakes == ["forget", None, "forget"]
    for agent in (OracleAgent(), RandomAgent(), HumanAgent()):
        assert type(agent.begin(agentgym.Task(), {}).fork()) is type(agent)
