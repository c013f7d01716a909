"""The package as a stranger gets it: built as a wheel, installed elsewhere, and a repository that names no machine."""

import os
import re
import shutil
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

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
    (found,) = built.glob("agentgym-*.whl")
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
    outside = {name for name in names if not name.startswith(("agentgym/", "agentgym-"))}
    assert not outside, f"would land in a user's site-packages: {sorted(outside)}"


def test_every_data_file_has_an_ending_that_is_packaged() -> None:
    strays = [p for p in tracked() if p.parts[0] == "agentgym" and p.suffix not in DATA_ENDINGS | {".py", ".md"}]
    assert not strays, f"package-data in pyproject.toml does not name these: {strays}"


def test_stranger_has_no_torch_and_lists_the_worlds(stranger: Path, tmp_path: Path) -> None:
    installed = run([str(stranger / "python"), "-m", "pip", "list", "--format=freeze"], tmp_path)
    assert "agentgym==" in installed
    assert "torch==" not in installed and "transformers==" not in installed
    assert "rlvr/Search-v0" in run([str(stranger / "agentgym"), "envs"], tmp_path)


def test_stranger_makes_search(stranger: Path, tmp_path: Path) -> None:
    program = (
        "import gymnasium as gym, agentgym, pathlib;"
        "env = gym.make('rlvr/Search-v0'); observation, info = env.reset(seed=7);"
        "assert observation and info['success'] is None;"
        "print(pathlib.Path(agentgym.__file__).parent)"
    )
    where = run([str(stranger / "python"), "-c", program], tmp_path).strip()
    assert where.startswith(str(stranger.parent)), f"the checkout was imported, not the wheel: {where}"


def test_stranger_checks_search(stranger: Path, tmp_path: Path) -> None:
    run([str(stranger / "agentgym"), "check", "rlvr/Search-v0"], tmp_path)


def test_import_is_fast_and_silent_and_without_torch() -> None:
    program = "import sys, agentgym; assert not {'torch', 'transformers', 'datasets'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-X", "importtime", "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    spent = re.search(r"\|\s+(\d+) \| +agentgym$", done.stderr, re.MULTILINE)
    assert spent, done.stderr[-2000:]
    assert int(spent[1]) < 2_000_000, (
        f"import agentgym took {int(spent[1]) / 1e6:.2f} s; it should take under 0.5 s when idle"
    )


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
    assert names - pinned == {"agentgym"} | own_environment
