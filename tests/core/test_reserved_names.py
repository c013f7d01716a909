"""Names that an environment may not take from the base class, and what an init of its own sets."""

import gymnasium as gym
import pytest
from ladder_env import Ladder

import agentgym
from agentgym import TextEnv
from agentgym.core.names import reserved_names

TAKEN = {
    "private": {"_levels": {}},
    "private method": {"_pay": lambda self, outcome: {}},
    "final method": {"step": lambda self, action: None},
    "set by the base class": {"turn": 3},
    "Gymnasium's": {"np_random": None},
    "a value for a method": {"state": None},
    "a property for a method": {"measures": property(lambda self: {})},
    "a tool for a method": {"find": agentgym.tool(lambda self: "")},
    "a setting": {"settings": ("limit",)},
    "a setting for a method": {"settings": ("tasks",)},
    "declared elsewhere": {"random_bound": 0.1},
}


@pytest.mark.parametrize("members", TAKEN.values(), ids=TAKEN)
def test_a_class_that_takes_a_name_of_the_base_class_is_refused_when_it_is_made(members):
    mixin = type("Mixin", (), dict(members))
    for bases in ((Ladder,), (mixin, Ladder)):
        with pytest.raises(TypeError, match=r"Mine (defines|name|sets) .*(uses: rename|rename it|declared = Declarations)"):
            type("Mine", bases, dict(members))
        if "settings" not in members:
            with pytest.raises(TypeError, match="Mine"):
                type("Mine", (mixin, Ladder), {})


def test_every_name_that_the_base_class_sets_is_kept():
    env = Ladder()
    set_by_ladder = set(vars(env)) - reserved_names(TextEnv)
    assert set_by_ladder <= {"render_mode", "split", "difficulty", "horizon", "feedback", "shaping", *Ladder.settings}
    assert {"reset", "step", "snapshot", "restore", "seed", "totals", "_own", "unwrapped", "spec"} <= reserved_names(TextEnv)
    assert not reserved_names(TextEnv) & {"begin", "act", "close", "tasks", "generate", "role", "check_options", "declared"}


def test_what_is_replaced_on_purpose_is_named():
    class Mine(Ladder, replaces=("step",)):
        def step(self, action):
            return super().step(action)

    class Below(Mine):
        pass

    assert Below().reset(seed=0)


@pytest.mark.parametrize("name", ["limit", "turn", "_levels", "observation", "tools", "state", "reward"])
def test_begin_and_setup_are_refused_the_names_of_the_base_class(name):
    class Mine(Ladder):
        def begin(self, task):
            setattr(self, name, 3)
            return super().begin(task)

    class Early(Ladder):
        def setup(self):
            setattr(self, name, dict)

    with pytest.raises(TypeError, match=rf"Mine.begin set self.{name}, which the base class uses: rename it"):
        Mine().reset(seed=0)
    if name in ("state", "reward"):
        with pytest.raises(TypeError, match=rf"Early.setup set self.{name}, which the base class uses: rename it"):
            Early()


@pytest.mark.parametrize("first", [True, False])
def test_what_an_init_of_its_own_sets_stays(first):
    class Kept(type(gym.make("rlvr/GuessNumber-v0").unwrapped)):
        def __init__(self, folder, **options):
            if not first:
                self.folder = folder
            super().__init__(**options)
            if first:
                self.folder = folder

        def begin(self, task):
            self.episodes = 1
            return super().begin(task) + self.folder

    class Later(Kept):
        def __init__(self, **options):
            super().__init__("here", **options)
            self.later = 1

    env = Later(difficulty=1)
    for _ in range(2):
        text, _ = env.reset(seed=0)
        assert text.endswith("here") and env.later == 1
    other = Later(difficulty=1)
    other.restore(env.snapshot())
    assert other.folder == "here" and other.episodes == 1
    env.forget()
    assert not hasattr(env, "episodes")
