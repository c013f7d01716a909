"""Rows of SWE-smith: the agent gets no failing test, edited tests pay nothing, and other languages are not guessed."""

import dataclasses
import json
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import swe_files
from test_swe_bench import SMITH, write

from agentgym.envs.swe.bench.evaluation import _put_back, break_, evaluate
from agentgym.envs.swe.bench.rows import read_rows
from agentgym.envs.swe.bench.swebench_format import report_of
from agentgym.envs.swe.tasks.suite import runs_tests
from agentgym.errors import BadData
from agentgym.sandbox.protocol import Result

RIGHT, WRONG, _ = swe_files.BUGS["discount"]
FAILING = [swe_files.ALL[1]]
PASSING = [test for test in swe_files.ALL if test not in FAILING]


class Folder:
    """A sandbox of a folder here: `/testbed` is the folder, `/tmp` is one beside it, and there is no conda."""

    def __init__(self, place: Path) -> None:
        self.place, self.tmp, tools = place / "testbed", place / "tmp", place / "bin"
        for folder in (self.tmp, tools, self.place):
            folder.mkdir(parents=True)
        (tools / "pytest").write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -m pytest -p no:cacheprovider "$@"\n')
        (tools / "pytest").chmod(0o755)
        self.env = {"PATH": f"{tools}:{os.environ['PATH']}", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "HOME": str(self.tmp)}

    def here(self, text: str) -> str:
        lines = [line for line in text.splitlines(keepends=True) if not line.startswith(("source ", "conda "))]
        return "".join(lines).replace("/testbed", str(self.place)).replace("/tmp/", f"{self.tmp}/")

    def run(self, command, *, stdin=None, timeout=None):
        words = ["bash", "-c", self.here(command)] if isinstance(command, str) else command
        done = subprocess.run(words, cwd=self.place, input=stdin, env=self.env, capture_output=True, timeout=timeout)
        return Result(done.returncode, done.stdout, done.stderr, "exit", 0.0)

    def write(self, path, content):
        Path(self.here(path)).write_bytes(self.here(content.decode("utf-8", "surrogateescape")).encode())


def always(sandbox):
    """Return what runs work in this sandbox."""
    return lambda work: work(sandbox)


def git(folder, *words):
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True).stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Return the repository of the image, and the row whose bug fits it."""
    place = tmp_path_factory.mktemp("image")
    clean = place / "clean"
    files = {"purse.py": swe_files.CODE, "tests/test_purse.py": swe_files.TESTS, "tests/data.json": "[1]\n"}
    written(clean, **files)
    for words in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "clean"]):
        git(clean, *words)
    (clean / "purse.py").write_text(swe_files.CODE.replace(RIGHT, WRONG))
    bug = git(clean, "diff")
    git(clean, "checkout", "-q", ".")
    row = {**SMITH, "patch": bug, "FAIL_TO_PASS": FAILING, "PASS_TO_PASS": PASSING}
    return clean, read_rows(write(place / "rows.jsonl", row)).find(SMITH["instance_id"])


@pytest.fixture
def image(built, tmp_path):
    """Return what makes a fresh sandbox of the image, and the row."""
    clean, row = built

    def fresh(name):
        sandbox = Folder(tmp_path / name)
        shutil.copytree(clean, sandbox.place, dirs_exist_ok=True)
        return sandbox

    return fresh, row


def submitted(fresh, row, change):
    """Return the patch of an agent that does `change` in the folder it gets, as the environment makes it."""
    sandbox = fresh("agent")
    break_(sandbox, row)
    git(sandbox.place, "add", "-A")
    git(sandbox.place, "commit", "-qm", "base")
    change(sandbox.place)
    git(sandbox.place, "add", "-A")
    return git(sandbox.place, "diff", "--cached", "--binary", "HEAD")


def repair(folder):
    (folder / "purse.py").write_text(swe_files.CODE)


def no_test_left(folder):
    (folder / "tests").mkdir(exist_ok=True)
    names = {test.partition("::")[2].partition("[")[0] for test in swe_files.ALL}
    body = "".join(f"def {name}(*_, **__):\n    pass\n\n\n" for name in sorted(names))
    (folder / "tests" / "test_purse.py").write_text(body)


CHEAT = (
    "import pytest\n\n\n@pytest.hookimpl(hookwrapper=True)\ndef pytest_runtest_makereport():\n"
    "    outcome = yield\n    outcome.get_result().outcome = 'passed'\n"
)


def conftest(folder):
    (folder / "conftest.py").write_text(CHEAT)


def settings(folder):
    (folder / "plug.py").write_text(
        "def pytest_runtest_call(item):\n    pass\n\n\ndef pytest_pyfunc_call():\n    return True\n"
    )
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p plug\npythonpath = .\n")


def written(folder, **files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def elsewhere(folder):
    no_test_left(folder)
    (folder / "tests").rename(folder / "mine")
    (folder / "tests").symlink_to("mine")


def loop(folder):
    shutil.rmtree(folder / "tests")
    (folder / "tests").symlink_to("tests")


def no_folder(folder):
    shutil.rmtree(folder / "tests")
    (folder / "tests").write_text("a file\n")


def in_the_way(folder):
    written(folder, **{"tests/test_purse.py/a/b.py": "x = 1\n"})


CHANGES = {
    "a link to easier tests": (elsewhere, False),
    "a link to itself": (loop, False),
    "a file for a folder": (no_folder, False),
    "a folder for a file": (in_the_way, False),
    "a repair behind a link": (lambda f: (repair(f), elsewhere(f)), True),
    "a repair and a file for a folder": (lambda f: (repair(f), no_folder(f)), True),
    "a package before pytest": (lambda f: written(f, **{"pytest/__init__.py": "", "tests/__init__.py": ""}), False),
    "a repair": (repair, True),
    "a repair, and an easier test beside it": (lambda f: (repair(f), no_test_left(f)), True),
    "nothing but a comment": (lambda f: (f / "notes.txt").write_text("x\n"), False),
    "an easier test": (no_test_left, False),
    "a conftest": (conftest, False),
    "a pytest.ini with a plugin": (settings, False),
}


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("restore", [True, False])
def test_who_changes_tests_is_not_paid(image, name, restore):
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    fresh, row = image
    change, resolved = CHANGES[name]
    patch = submitted(fresh, row, change)
    verdict, report = evaluate(row, patch, always(fresh("grading")), restore=restore)
    left = not restore and change in (conftest, settings)  # swebench's own steps leave configuration as a patch has it
    assert verdict.resolved is (resolved or left), report


PRINTS_MARKS = """
import os
for file in (1, *range(3, 32)):  # one of these is the output that pytest has put aside
    try:
        os.write(file, {lines!r}.encode())
    except OSError:
        pass
"""
RESULTS = "".join(f"PASSED {test}\n" for test in swe_files.ALL)
START, END, CODE = ">>>>> Start Test Output", ">>>>> End Test Output", ">>>>> Test Exit Code: 0"
PRINTED = {
    "results and an end": f"\n{RESULTS}{END}\n",
    "as the script is traced": f"\n{RESULTS}+ : '{END}'\n+ echo '{CODE}'\n{CODE}\n",
    "another start": f"\n{START}\n{RESULTS}",
    "an exit status": f"\n{CODE}\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_marks_of_a_log_are_the_scripts_own(image, name):
    """swebench 5.0.2 reads between the first marks; `agentgym swe score`, which is to agree with it, does too."""
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    fresh, row = image
    code = swe_files.CODE.replace(RIGHT, WRONG) + PRINTS_MARKS.replace("{lines!r}", repr(PRINTED[name]))
    patch = submitted(fresh, row, lambda folder: (folder / "purse.py").write_text(code))
    verdict, _ = evaluate(row, patch, always(fresh("grading")), restore=True)
    assert not verdict.resolved and "marks of the script" in verdict.message
    verdict, report = evaluate(row, patch, always(fresh("score")), restore=False)
    assert verdict.resolved is (name == "as the script is traced"), report  # else the exit status gives it away


def added(path, text, mode="100644"):
    body = "".join(f"+{line}\n" for line in text.splitlines())
    name = path if path.startswith('"') else f"b/{path}"
    return (
        f"diff --git a/{path} b/{path}\nnew file mode {mode}\n--- /dev/null\n+++ {name}\n"
        f"@@ -0,0 +1,{len(text.splitlines())} @@\n{body}"
    )


HOOK = "#!/bin/sh\nprintf 'def test_a(): pass' > tests/test_purse.py\n"
PATCHES = {
    "attributes": added(".gitattributes", "*.py working-tree-encoding=UTF-16\n"),
    "what it ignores": added(".gitignore", "conftest.py\n") + added("conftest.py", CHEAT),
    "a plugin by its entry point": added(".gitignore", "*\n")
    + added("plug.py", CHEAT)
    + added("plug.egg-info/entry_points.txt", "[pytest11]\nplug = plug\n")
    + added("plug.egg-info/PKG-INFO", "Metadata-Version: 2.1\nName: plug\nVersion: 1\n"),
    "a hook": added(".git/hooks/post-checkout", HOOK, "100755"),
    "a hook in octal": added('"b/\\056git/hooks/post-checkout"', HOOK, "100755"),
    "git's settings": added(".git/info/exclude", "conftest.py\n") + added("conftest.py", CHEAT),
    "what only the image has": "--- a/old.egg-info/entry_points.txt\n+++ b/old.egg-info/entry_points.txt\n@@ -1 +1,2 @@\n"
    " [pytest11]\n+plug = plug\n" + added("plug.py", CHEAT),
}


@pytest.mark.parametrize("name", PATCHES)
def test_a_patch_made_by_hand_is_not_paid(image, name):
    """A program in place of git writes what it likes into the patch."""
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    fresh, row = image
    sandbox = fresh("grading")
    written(sandbox.place, **{".git/info/exclude": "*.egg-info\n", "old.egg-info/entry_points.txt": "[pytest11]\n"})
    sandbox.env |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "", "PYTHONPATH": str(sandbox.place)}
    verdict, report = evaluate(row, PATCHES[name], always(sandbox), restore=True)
    assert verdict.resolved is False, report
    assert not (sandbox.place / ".git/hooks/post-checkout").exists()


def test_a_renamed_test_comes_back(image):
    """`git apply --3way` puts files into the index, and then git calls a file that went and one that came one renamed."""
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    fresh, row = image
    sandbox = fresh("grading")
    row = dataclasses.replace(row, bug="", removed=())
    sandbox.run("git mv tests/data.json notes.json && git diff --cached HEAD > /tmp/renamed.diff && git reset -q --hard")
    patch = (sandbox.tmp / "renamed.diff").read_text()
    sandbox.run("git mv tests/data.json notes.json")
    _put_back(sandbox, row, set())
    assert "rename" in patch and (sandbox.place / "tests" / "data.json").exists()


LINES = [
    "FAILED",
    "PASSED",
    "ERROR -",
    "FAILED - ",
    "XFAIL",
    "PASSED \0",
    "SKIPPED [",
    "FAILED " + "[" * 99,
    "\x1b[31mFAILED",
    "=" * 9,
]


@pytest.mark.parametrize("line", LINES)
def test_no_line_of_a_log_is_an_error_of_the_grader(image, line):
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    _, row = image
    marks = "+ : '>>>>> Start Test Output'\n{}\n+ : '>>>>> End Test Output'\n"
    for log in (line, marks.format(line), marks.format(f"{line}\n") * 2, f"{marks.format('')}{line}"):
        assert report_of(row, "x", log)["resolved"] is False


def test_the_agent_gets_no_failing_test(image):
    fresh, row = image
    sandbox = fresh("agent")
    break_(sandbox, row)
    assert row.removed == ("tests/test_purse.py",)
    assert not (sandbox.place / "tests" / "test_purse.py").exists() and (sandbox.place / "tests" / "data.json").exists()
    assert (sandbox.place / "purse.py").read_text() == swe_files.CODE.replace(RIGHT, WRONG)


GO = {**SMITH, "FAIL_TO_PASS": ["TestDiscount"], "PASS_TO_PASS": ["TestTotal/empty"]}


@pytest.mark.parametrize(
    "tests", [["TestDiscount"], ["purse > adds the discount"], ["PurseTest.discount"], ["src/a.test.js"]]
)
def test_rows_of_other_languages_are_refused_unless_they_say_how(tmp_path, tests):
    with pytest.raises(BadData, match=r"line 1: .*none of pytest's.*test_cmd and log_parser"):
        read_rows(write(tmp_path / "rows.jsonl", {**GO, "FAIL_TO_PASS": tests}))
    own = {"test_cmd": "go test -v ./...", "log_parser": "parse_log_gotest"}
    row = read_rows(write(tmp_path / "rows.jsonl", {**GO, **own, "FAIL_TO_PASS": tests})).items[0]
    assert row.row["log_parser"] == "parse_log_gotest" and "\ngo test -v ./...\n" in row.row["eval_script"]
    assert "conda" not in row.row["eval_script"] and "pytest" not in row.row["eval_script"]


def test_a_go_row_is_read_by_its_own_parser(tmp_path):
    """The parser is that of swebench 5.0.2."""
    pytest.importorskip("swebench", reason="the extra `swebench` is not installed")
    own = {"test_cmd": "go test -v ./...", "log_parser": "parse_log_gotest"}
    row = read_rows(write(tmp_path / "rows.jsonl", {**GO, **own})).items[0]
    log = "+ : '>>>>> Start Test Output'\n--- {}: TestDiscount (0.00s)\n    --- PASS: TestTotal/empty (0.00s)\n{}\n"
    log += "+ SWEBENCH_TEST_EXIT_CODE={}\n+ : '>>>>> End Test Output'\n>>>>> Test Exit Code: {}\n"
    assert report_of(row, "x", log.format("PASS", "ok", 0, 0))["resolved"] is True
    assert report_of(row, "x", log.format("FAIL", "FAIL", 1, 1))["resolved"] is False


def test_a_row_of_swe_rebench_is_none_of_swe_smith(tmp_path):
    """Its patch is the repair: as one of SWE-smith it would be taken for the bug."""
    row = {**SMITH, "base_commit": "ab", "test_patch": "diff --git a/t b/t\n", "install_config": {"test_cmd": "pytest"}}
    with pytest.raises(BadData, match="has no 'image'"):
        read_rows(write(tmp_path / "rows.jsonl", row))


DECIDING = """tests/test_a.py pkg/tests/data/x.json a_test.py conftest.py sub/conftest.py pytest.ini .pytest.ini setup.cfg
tox.ini pyproject.toml sitecustomize.py pkg/x_test.go testdata/in.txt src/a.test.ts src/a.spec.js src/__tests__/a.js
src/test/java/A.java app/PurseTest.java spec/a_spec.rb package.json jest.config.js .mocharc.yml vitest.config.ts
karma.conf.js Makefile tsconfig.test.json phpunit.xml pytest.py evil.pth noxfile.py pytest/__init__.py _pytest/runner.py
pluggy.so a.egg-info/entry_points.txt src/a.dist-info/METADATA src/__pycache__/a.cpython-311.pyc .env .coveragerc go.mod
Cargo.toml .cargo/config.toml pom.xml build.gradle.kts"""


@pytest.mark.parametrize("path", DECIDING.split())
def test_what_decides_tests(path):
    assert runs_tests(path)


@pytest.mark.parametrize(
    "path",
    [
        "setup.py",
        "pkg/a.py",
        "src/latest.py",
        "contest.py",
        "src/attest.go",
        "lib/inspector.js",
        "pkg/pytest.py",
        "",
        "pytest/README",
        "py",
    ],
)
def test_what_does_not(path):
    assert not runs_tests(path)


def test_a_folder_that_the_repair_is_in_is_no_folder_of_tests():
    assert runs_tests("django/test/utils.py") and not runs_tests("django/test/utils.py", ["django/test/client.py"])
    assert runs_tests("django/test/conftest.py", ["django/test/client.py"])


def test_json_of_a_row_is_read_alike(tmp_path):
    listed = {**SMITH, "FAIL_TO_PASS": json.dumps(SMITH["FAIL_TO_PASS"])}
    assert read_rows(write(tmp_path / "rows.jsonl", listed)).items[0].removed == ("tests/test_purse.py",)
