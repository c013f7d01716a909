"""Long work leaves the libraries' objects out of garbage collections, and gives them back."""

import gc

import pytest

from agentgym.core.garbage import libraries_frozen, uncollected


@pytest.fixture(autouse=True)
def _nothing_frozen():
    frozen = gc.get_freeze_count()  # by conftest.py, for all tests
    gc.unfreeze()
    yield
    gc.unfreeze()
    if frozen:
        gc.freeze()


def test_objects_are_frozen_during_the_block_alone():
    with libraries_frozen():
        assert gc.get_freeze_count() > 1000
        cycle = []
        cycle.append(cycle)
        del cycle
        assert gc.collect() > 0  # newer objects are still collected
    assert gc.get_freeze_count() == 0


def test_an_error_gives_them_back():
    with pytest.raises(KeyError), libraries_frozen():
        raise KeyError
    assert gc.get_freeze_count() == 0


def test_the_callers_own_freeze_stays():
    gc.freeze()
    with libraries_frozen():
        pass
    assert gc.get_freeze_count() > 1000


def test_imports_are_not_interrupted_by_collections_and_an_error_ends_the_pause():
    with pytest.raises(KeyError), uncollected():
        assert not gc.isenabled()
        raise KeyError
    assert gc.isenabled()


def test_the_callers_own_pause_stays():
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
