"""Each kind of engine answers for itself; nobody in the package asks its name."""

import ast
from pathlib import Path

import pytest

from agentgym.engines.kinds import ENGINES, EngineRequirements, kind_of, training_kind
from agentgym.errors import BadConfig, UnknownName

PACKAGE = Path(__file__).parents[2] / "agentgym"


def branches(text):
    """Return the lines where a program compares something with an engine's name, or asks whether a name begins with one."""
    names = {*ENGINES, *(f"{name}:" for name in ENGINES)}
    found = []
    for node in ast.walk(ast.parse(text)):
        tests = []
        if isinstance(node, ast.Compare):
            tests = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "startswith":
            tests = node.args
        literals = {one.value for part in tests for one in ast.walk(part) if isinstance(one, ast.Constant)}
        if {one for one in literals if isinstance(one, str)} & (names - {"chat"}):
            subject = ast.unparse(node)
            if any(word in subject for word in ("engine", "kind", "startswith")):
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
    on_cpu, on_gpu = EngineRequirements(16, "auto", 0), EngineRequirements(16, "auto", 0, device=0)
    assert ENGINES["hf"].run_options(on_cpu, {"prefill_tokens": 5}) == {"slots": 16, "prefill_tokens": 5}
    assert ENGINES["hf"].run_options(on_cpu, {"slots": 3}) == {"slots": 3}
    unseeded: dict[str, object] = {"seeded": False, "seed": 0}
    of_memory = {"weight_transport": "shared_memory", **unseeded}
    assert ENGINES["vllm"].run_options(on_cpu, {}) == {**of_memory, "dtype": "float32"}
    assert ENGINES["vllm"].run_options(on_cpu, {"seeded": True})["seeded"] is True
    on_one = {"weight_transport": "ipc", **unseeded, "max_num_seqs": 4}
    assert ENGINES["vllm"].run_options(on_gpu, {"max_num_seqs": 4}) == on_one
    assert ENGINES["vllm"].run_options(EngineRequirements(16, "nccl", 8, device=0), {}) == {**of_memory, "lora_rank": 8}
    assert ENGINES["openai"].run_options(on_gpu, {"key": "k"}) == {"key": "k"}


@pytest.mark.parametrize(
    ("transport", "rank", "options", "devices"),
    [
        ("auto", 0, {}, [0]),  # beside the process's own share of the trainer
        ("auto", 3, {}, [3]),
        ("shared_memory", 2, {}, [2]),
        ("nccl", 0, {}, [4]),  # after the trainer's four
        ("nccl", 3, {"tensor_parallel_size": 2}, [10, 11]),
        ("nccl", 1, {"device_ids": [7, 6, 5, 4]}, [6]),
        ("nccl", 3, {"device_ids": [4, 5, 6, 7, 8, 9, 10, 11], "tensor_parallel_size": 2}, [10, 11]),
    ],
)
def test_each_process_samples_on_gpus_of_its_own(transport: str, rank: int, options: dict[str, object], devices: list[int]):
    demand = EngineRequirements(16, transport, 0, device=rank, processes=4)
    assert ENGINES["vllm"].run_options(demand, options)["device_ids"] == devices


def test_engines_of_several_processes_on_the_same_gpus_are_refused():
    several = EngineRequirements(16, "auto", 0, device=1, processes=4)
    for options, message in (
        ({"tensor_parallel_size": 2}, "vLLM servers"),
        ({"device_ids": [1]}, "expected a list of 4 different GPUs"),
        ({"device_ids": [1, 1, 2, 3]}, "expected a list of 4 different GPUs"),
    ):
        with pytest.raises(BadConfig, match=message):
            ENGINES["vllm"].run_options(several, options)
    assert "device_ids" not in ENGINES["vllm"].run_options(EngineRequirements(16, "auto", 0, processes=4), {})  # CPUs
    assert ENGINES["vllm"].run_options(EngineRequirements(16, "nccl", 0, device=0), {"device_ids": [1]})["device_ids"] == [1]


def test_a_misspelt_option_is_refused_before_the_server_is_asked():
    with pytest.raises(BadConfig, match="retries"):
        ENGINES["openai"].check_run("http://127.0.0.1:1/v1", {"retires": 1})
