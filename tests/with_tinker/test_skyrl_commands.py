"""The commands of docs/guides/scale.md that start SkyRL's server on GPUs, read by its own argument parser and settings."""

import argparse
import re
import runpy
import shlex
import sys
from importlib.metadata import metadata
from pathlib import Path

import pytest

pytest.importorskip("skyrl", reason="no skyrl here: ./dev test-tinker makes an environment that has it")
from omegaconf import OmegaConf

if sys.version_info < (3, 12):
    runpy.run_path(str(Path(__file__).with_name("python311") / "sitecustomize.py"))
from skyrl.tinker.config import EngineConfig, add_model
from skyrl.train.config import InferenceEngineConfig, TrainerConfig
from skyrl.train.config.config import build_nested_dataclass, overrides_dict_to_dotlist

PAGE = Path(__file__).parents[2] / "docs/guides/scale.md"
WHOLE, INSTEAD = re.findall(
    r"```\w*\n(.*?)```", PAGE.read_text().partition("### Starting SkyRL's server")[2].partition("\n## ")[0], re.S
)


def words(case):
    """Return the command for one node, or the same with a backend for eight: the extras, and the server's arguments."""
    command = shlex.split(WHOLE.removeprefix("$ ").replace("\\\n", " "))
    begin = command.index("skyrl.tinker.api") + 1
    extras = [command[i + 1] for i, word in enumerate(command) if word == "--extra"]
    more = shlex.split(INSTEAD)
    return extras, command[begin:] + more[4 * case - 4 : 4 * case if case else 0]


def settings(backend, changes):
    """Return the settings of trainer and engines that these keys make; SkyRL makes the whole where vLLM can be imported."""
    settings_read = OmegaConf.to_container(
        OmegaConf.from_cli(overrides_dict_to_dotlist({**changes, "trainer.strategy": backend}))
    )
    assert settings_read.keys() <= {"trainer", "generator"} and settings_read.get("generator", {}).keys() <= {
        "inference_engine"
    }
    engines = settings_read.get("generator", {}).get("inference_engine", {})
    return build_nested_dataclass(TrainerConfig, settings_read["trainer"]), build_nested_dataclass(
        InferenceEngineConfig, engines
    )


@pytest.mark.parametrize(("case", "backend", "gpus"), [(0, "fsdp", 8), (1, "fsdp", 64), (2, "megatron", 64)])
def test_skyrl_reads_the_documented_command(case, backend, gpus):
    extras, arguments = words(case)
    assert set(extras) <= set(metadata("skyrl").get_all("Provides-Extra"))
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_model(parser, EngineConfig)
    parser.add_argument("--host")
    parser.add_argument("--port", type=int)
    parsed = vars(parser.parse_args(arguments))
    engine_config = EngineConfig.model_validate(
        {key: value for key, value in parsed.items() if key in EngineConfig.model_fields}
    )
    assert engine_config.backend == backend and parsed["host"] == "127.0.0.1"
    trainer, engines = settings(engine_config.backend, engine_config.backend_config)
    placement = trainer.placement
    assert placement.colocate_all and placement.policy_num_nodes * placement.policy_num_gpus_per_node == gpus
    assert engines.num_engines * engines.tensor_parallel_size == gpus, "engines have to fill the GPUs that they share"


def test_a_key_that_skyrl_does_not_have_would_be_found():
    with pytest.raises(ValueError, match="policy_gpus"):
        settings("fsdp", {"trainer.placement.policy_gpus": 8})
