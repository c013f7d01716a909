"""What all tests share, and what pytest says at its end: why tests were skipped, and what `./dev full` has besides."""

from collections import Counter, defaultdict

import pytest

LEFT = pytest.StashKey[list[str]]()


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A cache of their own: tests neither fill the user's nor lean on what it holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


def pytest_deselected(items):
    if items:
        config = items[0].config
        config.stash[LEFT] = [item.location[0] for item in items if item.get_closest_marker("slow")]


def pytest_sessionfinish(session):
    if hasattr(session.config, "workeroutput"):  # a process of pytest-xdist: every one of them left out the same
        session.config.workeroutput["left"] = session.config.stash.get(LEFT, [])


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[LEFT] = getattr(node, "workeroutput", {}).get("left") or node.config.stash.get(LEFT, [])


def pytest_terminal_summary(terminalreporter, config):
    reasons = defaultdict(Counter)
    for report in terminalreporter.stats.get("skipped", []):
        if isinstance(report.longrepr, tuple):  # an expected failure has none
            file, _, reason = report.longrepr
            reasons[reason.removeprefix("Skipped: ")][report.nodeid.partition("::")[0] or file] += 1
    if reasons:
        terminalreporter.section(f"skipped: {sum(files.total() for files in reasons.values())}")
    for reason, files in sorted(reasons.items(), key=lambda pair: -pair[1].total()):
        terminalreporter.write_line(f"{files.total():4} {reason}: {', '.join(sorted(files))}")
    if left := Counter(config.stash.get(LEFT, [])):
        terminalreporter.section(f"left to ./dev full: {left.total()} slow tests in {len(left)} files")
        terminalreporter.write_line(", ".join(f"{name} ({count})" for name, count in sorted(left.items())))
