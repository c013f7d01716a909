"""Where the data lies that the published checkers read: llama-index-core ships it for nltk."""

import importlib.util
import json
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import pytest


def folder_of(package: str) -> Path:
    """Return where a package is installed, without importing it; the test is skipped without it."""
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        pytest.skip(f"the package {package} is not installed: ./dev test-published")
    return Path(next(iter(spec.submodule_search_locations)))


def import_parts(package: str, *names: str) -> None:
    """Make packages importable whose own `__init__` imports far more than a test needs."""
    for name in (package, *names):
        if name not in sys.modules:
            module = ModuleType(name)
            module.__path__ = [str(folder_of(package).joinpath(*name.split(".")[1:]))]
            sys.modules[name] = module


@pytest.fixture(scope="session", autouse=True)
def nltk_data():
    """A folder of nltk's data: tokenizer and stop words of llama-index-core, and a tagger trained here on four sentences."""
    nltk = pytest.importorskip("nltk")
    folder = Path(tempfile.mkdtemp())
    cache = folder_of("llama_index") / "core" / "_static" / "nltk_cache"
    from nltk.tag.perceptron import PerceptronTagger

    nltk.data.path[:] = [str(folder), str(cache)]
    tagger = PerceptronTagger(load=False)
    tagger.train(TAGGED * 30)
    target = folder / "taggers" / "averaged_perceptron_tagger_eng"
    target.mkdir(parents=True)
    for part, name in zip(tagger.encode_json_obj(), tagger.param_files("eng"), strict=True):
        (target / Path(name).name).write_text(json.dumps(part))
    return folder


TAGGED = [
    [("Go", "VB"), ("home", "NN")],
    [("Home", "NN"), ("is", "VB")],
    [("Write", "VB"), ("it", "NN")],
    [("River", "NN"), ("runs", "VB")],
]
