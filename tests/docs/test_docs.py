"""README and docs: links lead somewhere, code blocks run, the index is complete."""

import ast
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCS = sorted(page for page in (ROOT / "docs").rglob("*.md") if "made" not in page.parts)
RESULTS = sorted((ROOT / "results").glob("*.md"))
PAGES = [*(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "AGENTS.md")), *DOCS, *RESULTS]
FENCE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str = "python") -> list[str]:
    """Return the fenced blocks of a page in one language."""
    return [body for kind, body in FENCE.findall(page.read_text(encoding="utf-8")) if kind == language]


def execute(program: str, folder: Path) -> str:
    done = subprocess.run([sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, f"{program}\n{done.stderr}"
    return done.stdout


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    text = re.sub(r"`[^`\n]*`", "", FENCE.sub("", page.read_text(encoding="utf-8")))
    text = re.sub(r"<!-- made by the docs build: .*? -->", "", text)
    for target in re.findall(r"\]\(([^()\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        assert file.exists(), f"{page.name} links to {target}, which does not exist"
        assert file.is_relative_to(ROOT), f"{page.name} links out of the repository: {target}"
        if anchor and file.suffix == ".md":
            assert anchor in anchors(file), f"{page.name} links to {target}; the headings there are {sorted(anchors(file))}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_lines_are_short_enough_to_review(page: Path) -> None:
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert not [line[:80] for line in text.splitlines() if len(line) > 400]


def test_the_docs_build_makes_the_pictures_and_pages_that_only_the_site_shows(tmp_path: Path) -> None:
    """Its links are those in comments of the pages; `./dev docs` fails on one that leads nowhere."""
    pages = {page: page.read_text(encoding="utf-8") for page in PAGES}
    targets = {
        page.parent / target
        for page, text in pages.items()
        for made in re.findall(r"<!-- made by the docs build: (.*?) -->", text)
        for target in re.findall(r"\]\(([^()\s]+)\)", made)
    }
    for folder in ("docs", "results", "benchmarks", "agentgym"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("made", "__pycache__"))
    subprocess.run([sys.executable, str(tmp_path / "docs" / "pictures.py")], check=True, timeout=400)
    made = {path.name for path in (tmp_path / "docs/made").iterdir()}
    assert made == {target.name for target in targets} | {"layers.svg", "results"}
    assert {page.name for page in (tmp_path / "docs/made/results").iterdir()} == {page.name for page in RESULTS}


def test_pages_that_help_and_errors_name_are_there() -> None:
    for file in sorted((ROOT / "agentgym").rglob("*.py")):
        for name in re.findall(r"\bdocs/[\w/-]+\.md\b", file.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{file.relative_to(ROOT)} names {name}, which does not exist"


def test_files_that_pages_name_are_there() -> None:
    """Decisions and the changelog tell of files as they were."""
    for page in (page for page in PAGES if page.name not in ("decisions.md", "CHANGELOG.md")):
        named = r"`((?:agentgym|tests|benchmarks|examples|docs|results)/[\w./-]+\.\w+)`"
        for name in re.findall(named, page.read_text(encoding="utf-8")):
            assert (ROOT / name).exists(), f"{page.name} names {name}, which does not exist"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_is_python(page: Path) -> None:
    for block in blocks(page):
        compile(block, page.name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_block_opens_and_closes(page: Path) -> None:
    """Otherwise the page shows text as code and code as text, and no test reads its commands."""
    text = FENCE.sub("", page.read_text(encoding="utf-8"))
    assert not re.findall(r"^```.*|^\$ .*", text, re.MULTILINE), (
        "a block whose ``` is missing, or a command outside of a block"
    )


def listed(index: Path) -> set[Path]:
    """Return the pages that the tables of an index link to."""
    rows = re.findall(r"^\|.*", index.read_text(encoding="utf-8"), re.MULTILINE)
    targets = {target for row in rows for target in re.findall(r"\]\(([^()\s#]+\.md)(?:#[^()]*)?\)", row)}
    return {(index.parent / target).resolve() for target in targets}


@pytest.mark.parametrize("folder", ["docs/environments", "docs/seams"])
def test_the_index_of_a_folder_lists_its_pages(folder: str) -> None:
    index = ROOT / folder / "README.md"
    assert {page for page in listed(index) if page.parent == index.parent} == {*index.parent.glob("*.md")} - {index}


def test_the_home_lists_every_other_page() -> None:
    home = ROOT / "docs/README.md"
    own_index = ("environments", "seams")
    pages = {page for page in DOCS if page.parent.name not in own_index or page.name == "README.md"}
    assert listed(home) == {*pages, *RESULTS} - {home}


def test_the_site_lists_every_page() -> None:
    nav = (ROOT / "docs/site.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    named = [name for name in re.findall(r"\b[\w/]+\.md", nav) if not re.fullmatch(r"made/\w+\.md", name)]
    copies = [f"made/results/{page.name}" for page in RESULTS]
    assert sorted(named) == sorted([*(page.relative_to(ROOT / "docs").as_posix() for page in DOCS), *copies])


def test_readme_episode_is_short_and_runs(tmp_path: Path) -> None:
    episode = blocks(ROOT / "README.md")[0]
    assert len([line for line in episode.splitlines() if line.strip()]) <= 11
    printed = execute(episode, tmp_path)
    assert printed.endswith("reward 1.0 success True\n")


def test_the_tutorial_environment_is_short_and_keeps_the_contract(tmp_path: Path) -> None:
    (env,) = blocks(ROOT / "docs/start/own_environment.md")
    assert len([line for line in env.splitlines() if line.strip()]) <= 36
    (tmp_path / "my_module.py").write_text(env)
    command = [sys.executable, "-m", "agentgym", "check", "my_module:me/GuessNumber-v0"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_environment_is_listed_and_the_readme_shows_eight() -> None:
    from agentgym.registry import ENVS

    listed = {
        page: re.findall(r"^\| `(rlvr/\S+)` \|", (ROOT / page).read_text(encoding="utf-8"), re.MULTILINE)
        for page in ("README.md", "docs/environments/README.md")
    }
    assert listed["docs/environments/README.md"] == list(ENVS)
    assert len(listed["README.md"]) == 8 and set(listed["README.md"]) < set(ENVS)
    assert f"[All {len(ENVS)}](docs/environments/README.md)" in (ROOT / "README.md").read_text(encoding="utf-8")


def test_tasks_page_runs(tmp_path: Path) -> None:
    (program,) = blocks(ROOT / "docs/guides/tasks.md")
    execute(program + "\nassert env.find('valid/0/17') == env.numbered(17)", tmp_path)


def test_commands_in_readme_exist() -> None:
    from agentgym.cli import COMMANDS

    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\$ agentgym ([\w-]+)", text, re.MULTILINE))
    assert named and named <= set(COMMANDS), f"not a command: {sorted(named - set(COMMANDS))}"
    script = (ROOT / "dev").read_text(encoding="utf-8")
    for name in re.findall(r"^\$ \./dev (\w+)", text, re.MULTILINE):
        assert re.search(rf"^  {name}\b", script, re.MULTILINE), f"./dev {name} is not in its help"
