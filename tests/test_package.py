"""The package as a stranger gets it: built as a wheel, installed elsewhere, and a repository that names no machine."""

import importlib.metadata
import os
import re
import shlex
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from agentgym.errors import DISTRIBUTION, how_to_install

ROOT = Path(__file__).resolve().parent.parent
DATA_ENDINGS = {".txt", ".jinja", ".toml", ".html", ".css", ".js", ".json", ".jsonl", ".typed"}


def tracked() -> list[Path]:
    """Files of the repository and those about to be: all that git does not ignore, relative to the root."""
    command = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in sorted(set(listed.split("\0"))) if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy, so that leftovers of earlier builds cannot get into it."""
    source, built = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    for name in tracked():
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, source / name)
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(built), str(source)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = built.glob("rlvr_gym-*.whl")
    return found


@pytest.fixture(scope="module")
def stranger(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `bin` folder of an environment that holds the wheel and its base dependencies, nothing else."""
    folder = tmp_path_factory.mktemp("stranger") / "venv"
    venv.create(folder, with_pip=True)
    command = [str(folder / "bin" / "python"), "-m", "pip", "install", "-q", "-c", str(ROOT / "constraints.txt"), str(wheel)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin"


def run(command: list[str], folder: Path) -> str:
    """Run a command outside the checkout and return what it printed; fails with its output."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV", "PYTEST"))}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**clean, "COLUMNS": "160"})
    assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_wheel_holds_code_and_data_and_nothing_else(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    wanted = {p.as_posix() for p in tracked() if p.parts[0] == "agentgym" and p.suffix in DATA_ENDINGS | {".py"}}
    assert wanted <= names, f"missing from the wheel: {sorted(wanted - names)}"
    outside = {name for name in names if not name.startswith(("agentgym/", "rlvr_gym-"))}
    assert not outside, f"would land in a user's site-packages: {sorted(outside)}"


def test_every_data_file_has_an_ending_that_is_packaged() -> None:
    strays = [p for p in tracked() if p.parts[0] == "agentgym" and p.suffix not in DATA_ENDINGS | {".py", ".md"}]
    assert not strays, f"package-data in pyproject.toml does not name these: {strays}"


@pytest.mark.long
def test_stranger_has_no_torch_and_lists_the_environments(stranger: Path, tmp_path: Path) -> None:
    installed = run([str(stranger / "python"), "-m", "pip", "list", "--format=freeze"], tmp_path)
    assert "rlvr-gym" in installed and "agentgym==" not in installed
    assert "torch==" not in installed and "transformers==" not in installed
    assert "rlvr/Search-v0" in run([str(stranger / "agentgym"), "envs"], tmp_path)


@pytest.mark.long
def test_stranger_makes_search(stranger: Path, tmp_path: Path) -> None:
    program = (
        "import gymnasium as gym, agentgym, pathlib;"
        "env = gym.make('rlvr/Search-v0'); observation, info = env.reset(seed=7);"
        "assert observation and info['success'] is None;"
        "print(pathlib.Path(agentgym.__file__).parent)"
    )
    where = run([str(stranger / "python"), "-c", program], tmp_path).strip()
    assert where.startswith(str(stranger.parent)), f"the checkout was imported, not the wheel: {where}"


@pytest.mark.long
def test_stranger_checks_search(stranger: Path, tmp_path: Path) -> None:
    run([str(stranger / "agentgym"), "check", "rlvr/Search-v0"], tmp_path)


@pytest.mark.long
def test_stranger_is_told_what_installs_an_extra_beside_the_wheel(stranger: Path, tmp_path: Path) -> None:
    """No index has the distribution, so the message spells out what the extra asks for; pip finds each of its names."""
    eval_command = [str(stranger / "agentgym"), "eval", "guessnumber", "--model", "vllm:x", "--out", str(tmp_path / "e")]
    done = subprocess.run(eval_command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    advice = re.search(r"^error: vllm:x needs torch: (.+)$", done.stderr, re.MULTILINE)
    assert advice, done.stderr
    python, *words = shlex.split(advice[1])
    assert words[:3] == ["-m", "pip", "install"] and Path(python).samefile(stranger / "python")
    named = [re.match(r"[\w-]+", word)[0] for word in words[3:]]
    assert {"vllm", "torch", "peft"} <= set(named) and DISTRIBUTION not in named and "agentgym" not in named

    program = "from agentgym.errors import how_to_install; print(how_to_install('docker'))"
    *_, docker, yaml, seccomp = shlex.split(run([str(stranger / "python"), "-c", program], tmp_path))
    assert docker == "docker>=7.1" and yaml == "pyyaml>=6" and seccomp == 'pyseccomp>=0.1.2; sys_platform == "linux"'
    command = [str(stranger / "python"), "-m", "pip", "install", "-q", docker, yaml, seccomp]
    run(command, tmp_path)
    run([str(stranger / "python"), "-c", "import docker, yaml, pyseccomp"], tmp_path)


def test_in_a_checkout_an_extra_is_installed_from_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(sys, "executable", str(ROOT / ".venv/bin/python"))
    monkeypatch.setenv("PATH", "/nowhere")
    assert how_to_install("train") == ".venv/bin/python -m pip install -e '.[train]'"
    monkeypatch.chdir(tmp_path)
    assert shlex.split(how_to_install("train"))[-2:] == ["-e", f"{ROOT}[train]"]
    own = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{own}:/usr/bin")
    assert how_to_install("web").startswith("pip install ")
    monkeypatch.setenv("PATH", "/nowhere")
    assert how_to_install("web").startswith(f"{shlex.quote(sys.executable)} -m pip install ")


def test_no_line_installs_a_distribution_that_is_not_ours() -> None:
    """`agentgym` on the package index is another project's, and nobody has put ours there."""
    forbidden = re.compile(
        r"\b(?:pip3?|uv|pipx)\s+(?:tool\s+)?(?:install|add|run)\b[^\n`#]*?[\s'\"](agentgym|rlvr[-_]gym)\b(?!/)"
    )
    for bad in (
        "pip install agentgym",
        "pip install 'agentgym[train]'",
        "uv pip install -U rlvr-gym",
        'pip install "rlvr_gym"',
    ):
        assert forbidden.search(bad), bad
    for good in (
        "pip install -e '.[train]'",
        "pip install ./dist/rlvr_gym-0.1-py3-none-any.whl",
        "pip install -e '/home/me/agentgym[web]'",
    ):
        assert not forbidden.search(good), good
    texts = {
        name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for name in tracked()
        if name != Path(__file__).relative_to(ROOT)
    }
    hits = [f"{name}: {found[0]}" for name, text in texts.items() for found in forbidden.finditer(text)]
    assert not hits, f"these install a stranger's package; agentgym.errors.how_to_install composes what works: {hits}"


def test_import_is_light_and_silent() -> None:
    """Half a second is the rule: gymnasium and NumPy take most of it, and beside them nothing but our own few modules comes.

    What is imported is counted, not timed: 0.23 s of CPU time against 0.18 s for the two alone, when this was written.
    """
    program = (
        "import sys, gymnasium, numpy; before = set(sys.modules); import agentgym;print(*sorted(set(sys.modules) - before))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    new = done.stdout.split()
    assert not {name.split(".")[0] for name in new} - {"agentgym", *sys.stdlib_module_names}
    assert len([name for name in new if name.startswith("agentgym")]) <= 47


def test_version_stands_in_one_place() -> None:
    from agentgym import __version__

    places = [
        name.as_posix()
        for name in tracked()
        if name.suffix in (".py", ".toml", ".cfg")
        and re.search(rf'version\w* *= *"{re.escape(__version__)}"', (ROOT / name).read_text(encoding="utf-8"))
    ]
    assert places == ["agentgym/__init__.py"]


def test_no_file_is_large() -> None:
    large = [f"{name}: {size:,} bytes" for name in tracked() if (size := (ROOT / name).stat().st_size) > 1_000_000]
    assert not large, f"files over 1 MB do not belong in the repository: {large}"


def test_no_file_names_a_machine_or_a_package_host() -> None:
    # Spelt in pieces, so that this file passes its own test.
    forbidden = [
        r"/ro" + r"ot/",
        r"/wo" + r"rk/",
        r"/opt/" + r"(?:pypi|wheels)",
        r"pypi\." + r"org",
        r"files\.python" + r"hosted",
    ]
    forbidden += [r"download\.py" + r"torch\.org", r"registry\.npm" + r"js", r"(?:index|extra-index)-" + r"url[ =]https?:"]
    pattern = re.compile("|".join(forbidden).encode())
    hits = [f"{name}: {found[0].decode()}" for name in tracked() if (found := pattern.search((ROOT / name).read_bytes()))]
    assert not hits, f"a checkout works on any machine, with any package index: {hits}"


def test_constraints_pin_every_dependency_that_pyproject_names() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pinned = {line.split("==")[0].lower().replace("_", "-") for line in (ROOT / "constraints.txt").read_text().splitlines()}
    extras = project["optional-dependencies"]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in sum(extras.values(), project["dependencies"])}
    own_environment = {"vllm"}  # pinned in tests/with_vllm/constraints.txt
    others = (ROOT / "tests" / "with_integrations" / "constraints.txt").read_text().splitlines()
    own_environment |= {line.split("==")[0] for line in others if not line.startswith("#")} & (names - pinned)
    assert names - pinned == {DISTRIBUTION} | own_environment


def test_every_pin_installs_with_the_python_of_debian_12() -> None:
    """Which is 3.11.2: one pin that wanted 3.11.5 ended the README's second command there."""
    pins = set((ROOT / "constraints.txt").read_text().lower().replace("_", "-").splitlines())
    here = {f"{d.name}=={d.version}".lower().replace("_", "-"): d for d in importlib.metadata.distributions()}
    required = {pin: here[pin].metadata.get("Requires-Python") or "" for pin in pins & here.keys()}
    assert len(required) > 50
    assert not {pin: python for pin, python in required.items() if not SpecifierSet(python).contains("3.11.2")}


def test_no_two_test_files_have_the_same_name() -> None:
    """pytest imports test files by their bare names: a second `test_x.py` breaks the collection of the whole suite."""
    paths = [path for path in tracked() if path.match("tests/**/test_*.py")]
    doubles = {path.name: [str(other) for other in paths if other.name == path.name] for path in paths}
    assert not {name: found for name, found in doubles.items() if len(found) > 1}
