"""What all tests share, and what pytest says at its end: why tests were skipped, and what `./dev full` has besides."""

import contextlib
import gc
import os
import signal
import time
import zlib
from collections import Counter, defaultdict
from datetime import UTC, datetime

import gymnasium
import pytest

from agentgym.errors import BadConfig, MissingExtra
from agentgym.registry import DESCRIPTIONS
from agentgym.sandbox.bubblewrap.sandbox import missing

LEFT = pytest.StashKey[list[str]]()
STARTED = pytest.StashKey[float]()

LONG = {"test_contract_browser.py", "test_contract.py", "test_examples.py", "test_kills.py", "test_launch.py"}
LONG |= {"test_package.py", "test_several_processes.py", "test_swe_grading.py", "test_train.py", "test_mix.py"}
LONG |= {"test_weights.py", "test_plan.py", "test_cli_eval.py", "test_integrations_page.py", "test_ray.py"}
"""Files with tests of 10 s and more. They come first: begun at the end, one would hold a core while the others are idle."""

year, week, _ = datetime.now(UTC).isocalendar()
os.environ.setdefault("AGENTGYM_CHECK_SEED", str(100 * year + week))  # before workers start, so that all have the same
os.environ.setdefault("MKL_CBWR", "AUTO,STRICT")  # as in a training run; MKL reads it at its first product
SUITE = os.environ.pop("AGENTGYM_SUITE", "")
"""Name of the suite that `./dev test-NAME` runs."""
os.environ.pop("PYTEST_ADDOPTS", None)  # it was read; a pytest that a test starts would write its report over this one


with contextlib.suppress(ImportError):  # not in every environment that runs a suite of tests
    from hypothesis import settings

    settings.register_profile("agentgym", settings(), deadline=None)  # an example may wait for a busy machine
    settings.load_profile("agentgym")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # in the background of a shell; what tests start would ignore it too
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_report_header() -> str:
    """Say which tasks the contract looks at: others every week, and the same again with the variable."""
    return f"tasks of the contract: AGENTGYM_CHECK_SEED={os.environ['AGENTGYM_CHECK_SEED']}"


@pytest.fixture(scope="session", autouse=True)
def cache(tmp_path_factory):
    """A cache of their own: tests neither fill the user's nor lean on what it holds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AGENTGYM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def registered():
    """What a test registers is gone after it: other tests list all environments and name the closest."""
    registry_before, described = dict(gymnasium.registry), dict(DESCRIPTIONS)
    yield
    registry_before |= {
        id: spec for id, spec in gymnasium.registry.items() if id.startswith("BabyAI-")
    }  # minigrid registers them once
    for table, before in ((gymnasium.registry, registry_before), (DESCRIPTIONS, described)):
        table.clear()
        table.update(before)


def pytest_addoption(parser):
    parser.addoption("--budget", type=float, metavar="SECONDS", help="begin no test after so many seconds")
    parser.addoption("--order", metavar="WORD", help="the order of the files, so that a budget leaves out others")


def pytest_sessionstart(session):
    session.config.stash[STARTED] = time.monotonic()


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Spare the garbage collector a million objects of libraries and tests: they stay until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config, items):
    order = config.getoption("order")
    items.sort(key=lambda item: zlib.crc32(f"{order} {item.path.name}".encode()) if order else item.path.name not in LONG)


@pytest.hookimpl(tryfirst=True)  # before the fixtures are made
def pytest_runtest_setup(item):
    budget = item.config.getoption("budget")
    if budget is not None and time.monotonic() - item.config.stash[STARTED] > budget:
        pytest.skip(f"no time left of {budget:.0f} s: ./dev full runs all of them")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Skip, with the reason, what needs a sandbox where none can be made; in CI, which has one, it fails."""
    report = yield
    refused = call.excinfo is not None and call.excinfo.errisinstance((MissingExtra, BadConfig)) and missing()
    if refused and not os.environ.get("CI") and refused in str(call.excinfo.value):
        report.outcome, report.longrepr = "skipped", (str(item.path), 0, f"Skipped: {refused}")
    return report


def pytest_deselected(items):
    if items:
        config = items[0].config
        left = [item.location[0] for item in items if any(map(item.get_closest_marker, ("long", "slow")))]
        config.stash[LEFT] = config.stash.get(LEFT, []) + left


def pytest_sessionfinish(session, exitstatus):
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    if SUITE and exitstatus == 0 and not session.config.option.collectonly and not reporter.stats.get("passed"):
        session.exitstatus = pytest.ExitCode.NO_TESTS_COLLECTED  # a suite without its environment checks nothing
        reporter.write_line(f"\nsuite {SUITE}: every test was skipped")
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
        terminalreporter.section(f"left to ./dev full: {left.total()} long and slow tests in {len(left)} files")
        terminalreporter.write_line(", ".join(f"{name} ({count})" for name, count in sorted(left.items())))
