"""The environment of repositories: tools, what they say, snapshots, and who gets the reward."""

import json

import pytest
import swe_files
from by_check import few, holds

from agentgym.contract import check
from agentgym.envs.swe import SWE
from agentgym.envs.swe.env import GRADING, first_change
from agentgym.envs.swe.tasks import read
from agentgym.envs.swe.tasks import source as sources
from agentgym.envs.swe.tasks.source import tree_of
from agentgym.envs.swe.tasks.suite import importable
from agentgym.envs.swe.views import SUBMITTED, command_output, formatted_output, no_match, places
from agentgym.errors import BadConfig, BadData
from agentgym.sandbox.protocol import Limits, Result
from agentgym.sandbox.warm_pool import take


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return str(swe_files.make(tmp_path_factory.mktemp("swe")))


@pytest.fixture
def environment(data):
    env = SWE(data=data)
    env.reset(seed=0, options={"task": "purse-largest"})
    yield env
    env.close()


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def run(environment, action):
    return environment.step(action)[0]


def test_commands_start_in_the_repository_and_leave_only_files(environment):
    assert run(environment, "bash[pwd; ls]") == (
        "<returncode>0</returncode>\n<output>\n/home/agent/repository\npurse.py\npyproject.toml\ntests\n</output>"
    )
    assert run(environment, "bash[cd /tmp; export A=1; touch here; sleep 100 & echo more >> new.txt; exit 3]") == (
        "<returncode>3</returncode>\n<output>\n</output>"
    )
    assert (
        run(environment, 'bash[echo "[$A]"; ls /tmp; pgrep sleep]') == "<returncode>1</returncode>\n<output>\n[]\n</output>"
    )
    assert "1 is on both, 2 as well" in run(environment, "bash[echo 1 is on both,; echo 2 as well >&2]").replace("\n", " ")


def test_what_the_agent_gets_has_the_bug_one_commit_and_no_hidden_test(environment):
    output = run(environment, "bash[git log --oneline --all; git status --short; cat purse.py tests/test_purse.py; env]")
    assert "return min(self.coins" in output and "return max(self.coins" not in output
    assert "test_largest" not in output and "test_empty" in output
    assert output.count(" The repository") == 1
    assert "agentgym" not in output


def test_nothing_of_agentgym_and_no_copy_of_the_package_can_be_reached(environment):
    for name in ("agentgym", "purse"):
        look = f"import importlib.util as u; print(u.find_spec('{name}'))"
        for python in ("python", "/usr/bin/python3"):
            assert "\nNone\n" in run(environment, f'bash[cd /; PYTHONPATH= {python} -c "{look}"]'), (name, python)
    assert "tasks.jsonl" not in run(environment, "bash[find / -name tasks.jsonl -not -path '/proc/*' 2>/dev/null]")


def test_the_tests_that_are_there_can_be_run(environment):
    output = run(environment, "bash[pytest]")
    assert "7 passed" in output and "<returncode>0</returncode>" in output and "test session starts" in output
    assert "<returncode>0</returncode>" in run(
        environment, "bash[python -m pytest -q tests; cd /tmp && python -c 'import purse']"
    )


def test_a_repair_by_hand(environment):
    start = environment.state_key()
    assert run(environment, "bash[grep -n min purse.py]") == (
        "<returncode>0</returncode>\n<output>\n32:        return min(self.coins, default=None)\n</output>"
    )
    assert environment.state_key() == start  # looking leaves the folder as it was
    changed = run(environment, call("edit", path="purse.py", old="min(self", new="max(self"))
    assert "32:        return max(self.coins, default=None)" in changed
    assert environment.state_key() != start
    _, reward, terminated, _, info = environment.step("submit[]")
    assert (reward, terminated, info["reason"]) == (1.0, True, "success")
    assert info["metrics"] == {"fail_to_pass": 1.0, "pass_to_pass": 1.0, "similarity": 1.0}


def test_submitting_nothing_earns_nothing(environment):
    _, reward, terminated, _, info = environment.step("submit[]")
    assert (reward, terminated, info["success"]) == (0.0, True, False)


def test_view_shows_numbers_and_what_is_around(environment):
    view = run(environment, call("view", path="purse.py", lines="30-31"))
    assert view == (
        "[File: purse.py (32 lines total)]\n(29 more lines above)\n30:    def largest(self):\n"
        '31:        """Return the largest coin, None where there is none."""\n(1 more lines below)'
    )
    assert run(environment, "view[/home/agent/repository/purse.py]").startswith(
        "[File: /home/agent/repository/purse.py (32 lines"
    )
    assert (
        run(environment, "view[.]") == "[Folder: ., two levels deep]\npurse.py\npyproject.toml\ntests\ntests/test_purse.py"
    )
    assert "no file 'none.py'" in run(environment, "view[none.py]")
    assert "has 32 lines; line 90" in run(environment, call("view", path="purse.py", lines="90-"))
    assert "expected the first and last line" in run(environment, call("view", path="purse.py", lines="a-b"))
    run(environment, "bash[seq 1000 > long.txt; printf '\\377\\n' > bytes; printf '%0999d' 0 > wide]")
    assert run(environment, "view[long.txt]").splitlines()[-1] == "(900 more lines below)"
    assert "1:\\xff" in run(environment, "view[bytes]")
    assert "(499 more characters)" in run(environment, "view[wide]")


def test_an_edit_that_does_not_fit_says_why(environment):
    text = run(environment, call("edit", path="purse.py", old="return", new="x"))
    assert "3 times, at lines 7, 15, 32" in text
    text = run(environment, call("edit", path="purse.py", old="  whole = sum(prices)\nreturn whole", new="x"))
    assert "not found in purse.py" in text and "Its first line is at line 6." in text
    text = run(
        environment,
        call("edit", path="purse.py", old="whole = sum(prices)\n  return whole - whole * discount // 100", new=""),
    )
    assert "Ignoring whitespace at the ends of lines, it is at line 6:\n    whole = sum(prices)\n    return whole" in text
    assert "already exists" in run(environment, call("edit", path="purse.py", old="", new="x"))
    assert "no file" in run(environment, call("edit", path="no.py", old="a", new="b"))
    assert "the same" in run(environment, call("edit", path="purse.py", old="a", new="a"))
    assert environment.state_key() and not environment.changed
    assert "1:x = 1" in run(environment, call("edit", path="sub/new.py", old="", new="x = 1\n"))
    assert "cannot be" in run(environment, call("edit", path="purse.py/x", old="", new="x"))


def test_a_search_for_what_is_there_often_ends():
    text, old = "a\n" * 200_000, "a\n" * 100_000
    assert places(text, "a\n")[-1] == 200_000  # minutes, were lines counted anew for each
    assert places("b\n\nab\nb", "b") == [1, 3, 4]
    assert "Its first line is at lines 1, 2, 3, 4, 5." in no_match("x.py", text, old + "b\n")
    assert "at line 2:\n  a\n b" in no_match("x.py", "ab\n  a\n b", "a\nb\n")
    assert "ends of lines" not in no_match("x.py", "aa\nbb", "a\nb")


def test_a_large_file_is_for_commands(environment):
    run(environment, "bash[yes | head -c 5000000 > large]")
    for call_ in ("view[large]", call("edit", path="large", old="y", new="n")):
        assert "is larger than 4 MiB: use bash" in run(environment, call_)
    run(environment, call("bash", command="echo hi > $'\\xff'"))
    assert "half a character" in run(environment, call("view", path="\udcff"))


def test_a_patch_of_a_large_file_is_not_made(environment):
    run(environment, "bash[echo new > new.txt; head -c 300000 /dev/zero > zeros; printf '\\377' >> zeros]")
    assert environment.patch().endswith("+++ b/new.txt\n@@ -0,0 +1 @@\n+new\n")
    run(environment, "bash[yes | head -c 300000 > large]")
    assert environment.patch() is None
    assert "\n<patch>\nleft out: more than 60000 characters\n</patch>" in run(environment, "submit[]")


def test_limits_are_told(data):
    environment = SWE(data=data, timeout=3.0)
    environment.reset(seed=0)
    assert "<exception>The command took longer than 3 s" in run(environment, "bash[echo before; sleep 60]")
    assert environment.step("bash[echo more]")[0] == "<returncode>0</returncode>\n<output>\nmore\n</output>"
    assert "printed more than" in run(environment, "bash[yes]")
    environment.close()


def test_a_long_output_loses_its_middle():
    text = formatted_output("a" * 6000 + "b" * 6000, 0)
    assert "<output_head>\n" + "a" * 5000 + "\n</output_head>" in text
    assert "2000 characters elided" in text and "b" * 5000 in text and len(text) < 11_500
    result = Result(-9, b"", b"", "killed", 0.1)
    assert command_output(result, Limits(), 3).startswith(
        "<exception>The command was killed by signal 9.</exception>\n<returncode>-1"
    )


def too_large(*_):
    raise OSError("too many files")


def test_a_folder_that_cannot_be_kept_is_put_back(environment, monkeypatch):
    run(environment, "bash[echo kept > kept.txt]")
    monkeypatch.setattr(type(environment), "pack_folder", too_large)
    text = run(environment, "bash[echo lost > lost.txt]")
    monkeypatch.undo()
    assert "its previous state was restored" in text
    assert run(environment, "bash[ls *.txt]") == "<returncode>0</returncode>\n<output>\nkept.txt\n</output>"


def test_names_and_an_index_that_are_no_text_of_git_or_utf_8_break_nothing(environment):
    for index in (r"DIRC\0\0\0\2", r"DIRC\0\0\0\2\0\0\0\5abc", ""):
        assert "<returncode>0" in run(environment, call("bash", command=f"printf '{index}' > .git/index"))
    assert "<returncode>0" in run(environment, call("bash", command="ln -s $'\\xff' link; touch $'\\xfe'"))
    assert len(environment.changed) == 3
    environment.load(environment.save())
    assert "xfe" in run(environment, "bash[ls]")
    text, reward, ended, _, _ = environment.step("submit[]")
    assert ended and reward == 0 and "Nothing was changed in the code." not in text


def test_a_folder_that_another_thread_forgets_is_still_there(environment, monkeypatch):
    monkeypatch.setattr("agentgym.envs.swe.env.REMEMBERED", 0)
    for _ in range(2):
        environment.reset(seed=0, options={"task": "purse-largest"})
        assert "purse.py" in run(environment, "bash[ls]")


def test_a_snapshot_goes_on_elsewhere_and_is_small(environment, data):
    run(environment, "bash[echo more > more.txt; git add more.txt; ln -s more.txt link; mkdir empty; chmod +x more.txt]")
    state, key = environment.snapshot(), environment.state_key()
    assert len(state.payload[0]["folder"]) < 20_000
    run(environment, "bash[rm -rf *]")
    other = SWE(data=data).restore(state)
    assert other.state_key() == key
    assert run(other, "bash[cat link; git status --short; ls -d empty; test -x more.txt && echo x]") == (
        "<returncode>0</returncode>\n<output>\nmore\nAM more.txt\n?? link\nempty\nx\n</output>"
    )
    other.close()


def test_what_is_staged_is_part_of_the_state(environment):
    keys = []
    for command in ("echo 1 >> purse.py", "git add purse.py", "git reset -q", "git stash -q", "git status"):
        run(environment, f"bash[{command}]")
        keys.append(environment.state_key())
    assert len(set(keys[:2])) == 2 and keys[2] != keys[1] and keys[3] == keys[4]


def test_a_sandbox_that_breaks_is_replaced_with_the_folder_as_it_was(environment):
    run(environment, "bash[echo 1 > made.txt; date +%N]")
    environment._sandbox._process.kill()
    assert run(environment, "bash[cat made.txt]") == "<returncode>0</returncode>\n<output>\n1\n</output>"


def test_bash_alone_and_its_sentinel(data):
    environment = SWE(data=data, toolset="bash")
    observation, _ = environment.reset(seed=0, options={"task": "purse-largest"})
    assert list(environment.tools) == ["bash"] and SUBMITTED in observation
    assert "exactly one bash command" in run(environment, "I will look around.")
    run(environment, f"bash[echo {SUBMITTED} | cat; false]")
    assert environment.success is None  # a command that fails submits nothing
    run(environment, "bash[sed -i 's/min(/max(/' purse.py]")
    assert environment.step(f"bash[echo {SUBMITTED} && git diff]")[1] == 1.0
    environment.reset(seed=0, options={"task": "purse-nobody"})
    for action in environment.oracle():
        environment.step(action)
        if environment.success is not None:
            break
    assert environment.success
    environment.close()


def test_the_oracle_repairs_whatever_was_done(environment):
    for mess in (
        "rm -rf * .git",
        "sed -i 's/return/return  /' purse.py; mkdir purse; echo 1 > purse/__init__.py",
        "cp purse.py more.py; echo 'return min(self.coins, default=None)' >> purse.py; rm -rf tests",
        "rm purse.py; mkdir purse.py; rm ~/.local/bin/*",
    ):
        environment.reset(seed=0, options={"task": "purse-largest"})
        run(environment, f"bash[{mess}]")
        for action in environment.oracle():
            environment.step(action)
            if environment.success is not None:
                break
        assert environment.success, mess


@pytest.mark.parametrize(
    ("now", "wanted"),
    [
        ("a\nb\nc\n", "a\nx\nc\n"),
        ("a\nb\n", "a\nguard\nb\n"),  # what is replaced is still there afterwards
        ("a\na\na\n", "a\na\nb\na\n"),
        ("b\n", "a\nb\nc\nb\nd"),
        ("a\nb", "a\nb\n"),
        ("a\nb\n", ""),
    ],
)
def test_one_change_after_another_leads_there(now, wanted):
    for _ in range(5):
        if now == wanted:
            return
        old, new = first_change(now.encode(), wanted.encode())
        assert now.count(old) == 1
        now = now.replace(old, new)
    raise AssertionError(now)


def test_tasks_and_options(data, tmp_path):
    environment = SWE(data=data)
    assert environment.splits == {"train": 1.0} and environment.size() == 3
    assert {task.id for task in environment.tasks(3)} == {"purse-discount", "purse-largest", "purse-nobody"}
    assert environment.find("purse-nobody").data["fix"] == ["if parts < 1:"]
    assert environment.numbered(4) == environment.numbered(1)
    for wrong in ({"toolset": "none"}, {"timeout": 0}, {"split": "test"}):
        with pytest.raises((BadConfig, LookupError)):
            SWE(data=data, **wrong)
    empty = tmp_path / "empty.jsonl"
    empty.write_text("")
    with pytest.raises(BadData, match="no task"):
        SWE(data=str(empty))


def test_a_package_that_the_sandbox_has_installed_is_refused(tmp_path):
    root = tmp_path / "copied"
    (root / "tests").mkdir(parents=True)
    for name, text in (("pluggy.py", swe_files.CODE), ("tests/test_purse.py", swe_files.TESTS.replace("purse", "pluggy"))):
        (root / name).write_text(text)
    from agentgym.envs.swe.tasks import Edit, Instance, Repository, write
    from agentgym.envs.swe.tasks.source import digest, tree_of

    repository = Repository("copied", str(root), digest(tree_of(str(root))), "train", swe_files.ALL)
    bug = (Edit("pluggy.py", *swe_files.BUGS["nobody"][:2]),)
    made = Instance("one", repository, "?", bug, swe_files.ALL[3:4], swe_files.ALL[:3], "by hand", 0, 0.3)
    write(tmp_path / "copied.jsonl", [made])
    environment = SWE(data=str(tmp_path / "copied.jsonl"))
    with pytest.raises(BadConfig, match="pluggy can be imported in the sandbox"):
        environment.reset(seed=0)
    environment.close()


def test_a_repository_that_changed_is_refused(tmp_path):
    path = swe_files.make(tmp_path)
    (tmp_path / "purse-1.0" / "purse.py").write_text("changed = 1\n")
    environment = SWE(data=str(path))
    with pytest.raises(BadData, match="not the files"):
        environment.reset(seed=0)


LITTLE = (
    "nasty actions",
    "spellings",
    "info schema",
    "snapshots elsewhere",
    "splits are disjoint",
    "oracle solves",
    "shortcut policies fail",
)


@pytest.mark.long
def test_a_little_of_the_contract(data):
    under_test = few(SWE(data=data))
    for name in LITTLE:
        holds(under_test, name)


@pytest.mark.slow
def test_a_little_of_the_contract_on_more_tasks(data):
    report = check(SWE(data=data), checks=LITTLE)
    assert report.ok, str(report)


def test_the_bug_is_put_back_by_its_edits(data):
    for task in read(data):
        assert task.mutated() != task.base() and task.kind == "by hand"


def test_no_sandbox_has_a_package_that_comes_with_agentgym():
    names = {name for repository in sources.embedded() for name in importable(tree_of(f"package:{repository}"))}
    assert len(names) >= 8
    look = f"import importlib.util as u; print([name for name in {sorted(names)} if u.find_spec(name)])"
    sandbox = take(packages=GRADING)
    for python in (SWE()._python(), "/usr/bin/python3"):
        assert sandbox.run([python, "-c", look]).stdout.decode() in ("[]\n", ""), python
    sandbox.close()


@pytest.mark.long
@pytest.mark.parametrize("split", ["train", "valid", "test"])
def test_tasks_that_come_with_agentgym_are_solved_by_their_oracle(split):
    environment = SWE(split=split)
    task = environment.tasks(3)[2]
    observation, _ = environment.reset(seed=0, options={"task": task})
    assert observation.startswith(task.instruction.strip())
    for action in environment.oracle():
        environment.step(action)
        if environment.success is not None:
            break
    assert environment.success, environment.observation
    environment.close()


def test_difficulty_is_a_bound():
    easy, all_ = SWE(difficulty=0), SWE()
    assert 0 < easy.size() < all_.size() and {task.difficulty for task in easy.tasks(20)} == {0}
    assert len(all_.splits) == 3 and all_.size("test") == 90
