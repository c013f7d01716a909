"""Scripts as users write them: worker processes import them only where they must, and say so where that cannot work."""

import subprocess
import sys

import pytest

ENV = """
import agentgym
class Slow(agentgym.TextEnv):
    blocking = True
    def begin(self, task): return "Say yes."
    def act(self, action): return self.win("Right.") if action == "yes" else self.invalid("No.")
    def state(self): return ()
    def oracle(self): yield "yes"
    @staticmethod
    def generate(rng, difficulty): return agentgym.Task(instruction="say", data={"n": int(rng.integers(1000))})
agentgym.register("me/Slow-v0", Slow, horizon=3)
"""
PLAY = """
import agentgym
print("begun")
episodes = agentgym.collect(agentgym.OracleAgent(), "me/Slow-v0", tasks=1)
print([episode.success for episode in episodes])
"""


def ran(tmp_path, command=("script.py",), **files):
    for name, text in files.items():
        (tmp_path / f"{name}.py").write_text(text)
    done = subprocess.run([sys.executable, *command], cwd=tmp_path, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout.splitlines(), done.stderr


def test_a_script_without_a_guard_runs_once(tmp_path):
    script = PLAY.replace('"me/Slow-v0"', '"slow:me/Slow-v0"')
    assert ran(tmp_path, slow=ENV, script=script) == (0, ["begun", "[True]"], "")


def test_what_the_script_registered_is_known_in_the_workers(tmp_path):
    script = "import slow" + PLAY
    assert ran(tmp_path, slow=ENV, script=script) == (0, ["begun", "[True]"], "")


def test_an_environment_of_the_script_itself_is_imported_with_it(tmp_path):
    guarded = ENV + 'if __name__ == "__main__":' + PLAY.replace("\n", "\n    ")
    assert ran(tmp_path, script=guarded) == (0, ["begun", "[True]"], "")


def test_what_cannot_be_sent_is_registered_by_the_script_again(tmp_path):
    script = "import agentgym, slow\nagentgym.register('me/Made-v0', lambda **options: slow.Slow(**options), horizon=3)\n"
    script += 'if __name__ == "__main__":' + PLAY.replace("me/Slow", "me/Made").replace("\n", "\n    ")
    assert ran(tmp_path, slow=ENV, script=script) == (0, ["begun", "[True]"], "")


@pytest.mark.parametrize("options", ["", ", env_options={}"])
def test_without_a_guard_it_is_told_what_to_do(tmp_path, options):
    code, output, error = ran(tmp_path, script=ENV + PLAY.replace("tasks=1", "tasks=1" + options))
    assert code == 1 and "[True]" not in output
    assert "this script plays episodes while a worker process imports it: put the script's code under" in error
    assert error.splitlines()[-1].startswith("agentgym.errors.BadConfig: a worker process imports this script, where")


def test_a_pool_of_ones_own_is_left_alone(tmp_path):
    """Where a script starts processes itself, what they import is not ours to change, also after we have started some."""
    script = (
        "import multiprocessing, slow"
        + PLAY.replace('print("begun")', "")
        + "    \nif __name__ == '__main__':\n    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [2]))\n"
    ).replace("import multiprocessing, slow", "import multiprocessing, slow\ndef double(n): return 2 * n\n")
    script = script.replace("\nepisodes", "\nif __name__ == '__main__':\n    episodes").replace("\nprint([", "\n    print([")
    code, output, error = ran(tmp_path, slow=ENV, script=script)
    assert (code, output) == (0, ["[True]", "[4]"]), error


POLICY = """
import agentgym
from agentgym.agents.policies import ScriptedPolicy
ANSWER = "yes"
class Answer:
    text = ANSWER
class Mine(ScriptedPolicy):
    def choose(self, env, info, rng): return Answer.text
"""
MINE = PLAY.replace("agentgym.OracleAgent()", "Mine()")


@pytest.mark.parametrize("guarded", [False, True])
def test_a_policy_of_the_script_plays_in_the_workers(tmp_path, guarded):
    play = 'if __name__ == "__main__":' + MINE.replace("\n", "\n    ") if guarded else MINE
    assert ran(tmp_path, slow=ENV, script="import slow" + POLICY + play) == (0, ["begun", "[True]"], "")


@pytest.mark.long
def test_environment_and_policy_of_one_script(tmp_path):
    script = ENV + POLICY + 'if __name__ == "__main__":' + MINE.replace("\n", "\n    ")
    assert ran(tmp_path, script=script) == (0, ["begun", "[True]"], "")


@pytest.mark.long
def test_a_policy_with_a_lambda_in_a_function(tmp_path):
    made = "def made(answer):\n    agent = Mine()\n    agent.choose = lambda *_: answer\n    return agent\n"
    script = "import slow" + POLICY + made + MINE.replace("Mine()", 'made("yes")')
    assert ran(tmp_path, slow=ENV, script=script) == (0, ["begun", "[True]"], "")


@pytest.mark.long
def test_an_environment_made_by_a_lambda(tmp_path):
    script = "import slow" + PLAY.replace('"me/Slow-v0"', "lambda: slow.Slow(horizon=3)")
    assert ran(tmp_path, slow=ENV, script=script) == (0, ["begun", "[True]"], "")


@pytest.mark.long
@pytest.mark.parametrize("policy", ["agentgym.OracleAgent()", "Mine()"])
def test_a_notebook_has_no_file_to_import(tmp_path, policy):
    """As in a notebook, what is defined in `python -c` stands in no file."""
    text = ENV + POLICY + PLAY.replace("agentgym.OracleAgent()", policy)
    assert ran(tmp_path, command=("-c", text)) == (0, ["begun", "[True]"], "")


@pytest.mark.long
def test_a_policy_that_cannot_be_sent_is_one_error(tmp_path):
    script = "import slow, threading" + POLICY + "Mine.lock = threading.Lock()\n" + MINE
    code, output, error = ran(tmp_path, slow=ENV, script=script)
    assert (code, output) == (1, ["begun"])
    assert "agentgym.errors.BadConfig: consult cannot be sent to a worker: " in error and "lock" in error


@pytest.mark.long
def test_a_policy_of_a_module_that_workers_do_not_find_is_one_error(tmp_path):
    """A module that was put together by hand stands on no path."""
    script = "import slow, sys, types\nmodule = sys.modules['made'] = types.ModuleType('made')\n"
    script += f"exec({POLICY!r}, vars(module))\nfrom made import Mine\n" + MINE
    code, output, error = ran(tmp_path, slow=ENV, script=script)
    assert (code, output) == (1, ["begun"])
    assert "agentgym.errors.BadConfig: a worker cannot import what it is sent: No module named 'made'" in error
