"""Each kind of engine answers for itself; nobody in the package asks its name."""

import ast
from pathlib import Path

import pytest

from agentgym.engines.kinds import ENGINES, Demand, kind_of, training_kind
from agentgym.errors import BadConfig, UnknownName

PACKAGE = Path(__file__).parents[2] / "agentgym"


def branches(text):
    """Return the lines where a program compares something with an engine's name, or asks whether a name begins with one."""
    names = {*ENGINES, *(f"{name}:" for name in ENGINES)}
    found = []
    for node in ast.walk(ast.parse(text)):
        asked = []
        if isinstance(node, ast.Compare):
            asked = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            asked = node.args
        said = {one.value for part in asked for one in ast.walk(part) if isinstance(one, ast.Constant)}
        subject = ast.unparse(node)
        engine_like = any(word in subject for word in ("engine", "kind", "startswith"))
        if engine_like and {one for one in said if isinstance(one, str)} & (names - {"chat"}):
            found.append(node.lineno)
    return found


def test_nobody_branches_on_an_engines_name():
    found = {
        str(path.relative_to(PACKAGE)): lines
        for path in PACKAGE.rglob("*.py")
        if "envs" not in path.relative_to(PACKAGE).parts and (lines := branches(path.read_text(encoding="utf-8")))
    }
    assert found == {}
    assert branches('if config.engine == "vllm" or engine.startswith("openai:"): pass') == [1, 1]


@pytest.mark.parametrize("name", ["hf", "vllm", "openai:http://127.0.0.1:1/v1", "vllm:http://a:1,http://b:1"])
def test_a_run_may_sample_from(name):
    kind = training_kind(name)
    assert kind.served == name.startswith("openai")
    assert kind.of_address == ("http" in name)
    assert sum((kind.in_process, kind.sent_weights, kind.served)) == 1


@pytest.mark.parametrize(
    "name", ["chat:http://127.0.0.1/v1", "scripted", "openai", "openai:", "hf:", "hf:x", "vllm:y", "gpt"]
)
def test_a_run_refuses(name):
    with pytest.raises(UnknownName, match="openai:URL"):
        training_kind(name)


def test_an_unknown_kind_suggests_the_closest():
    with pytest.raises(UnknownName, match="vllm"):
        kind_of("vlm:somewhere")


def test_options_of_a_run():
    """As the trainer had them when it asked for the engine's name."""
    on_cpu, on_gpu = Demand(16, "auto", 0, on_cpu=True), Demand(16, "auto", 0, on_cpu=False)
    assert ENGINES["hf"].run_options(on_cpu, {"prefill_tokens": 5}) == {"slots": 16, "prefill_tokens": 5}
    assert ENGINES["hf"].run_options(on_cpu, {"slots": 3}) == {"slots": 3}
    assert ENGINES["vllm"].run_options(on_cpu, {}) == {"weight_transport": "shared_memory", "dtype": "float32"}
    assert ENGINES["vllm"].run_options(on_gpu, {"max_num_seqs": 4}) == {"weight_transport": "ipc", "max_num_seqs": 4}
    adapted = Demand(16, "nccl", 8, on_cpu=False)
    assert ENGINES["vllm"].run_options(adapted, {}) == {"weight_transport": "shared_memory", "lora_rank": 8}
    assert ENGINES["openai"].run_options(on_gpu, {"key": "k"}) == {"key": "k"}


def test_a_misspelt_option_is_refused_before_the_server_is_asked():
    with pytest.raises(BadConfig, match="retries"):
        ENGINES["openai"].check_run("http://127.0.0.1:1/v1", {"retires": 1})
