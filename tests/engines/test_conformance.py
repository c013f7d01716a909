"""The conformance suite over the engines that need no second environment."""

import asyncio
from pathlib import Path
from typing import Any

import conformance
import pytest
import tiny
import transformers

from agentgym.engines import engine
from agentgym.engines.scripted import ScriptedEngine


@pytest.fixture(scope="module")
def mixtures(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return (
        tiny.folder(tmp_path_factory.mktemp("c"), kind="Qwen3Moe"),
        tiny.folder(tmp_path_factory.mktemp("d"), seed=1, kind="Qwen3Moe"),
    )


def under_test(kind: str, folders: tuple[Path, Path]) -> conformance.EngineUnderTest:
    if kind == "scripted":
        made = ScriptedEngine(lambda prompt, turn: "go to the shelf, and look", context=512, pace=1)
        return conformance.EngineUnderTest(made, exact=False)
    made = engine(f"hf:{folders[0]}", slots=1 if kind == "hf one slot" else 4)
    reference = transformers.AutoModelForCausalLM.from_pretrained(folders[0])
    return conformance.EngineUnderTest(made, reference=reference, other=folders[1])


@pytest.mark.long
@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["scripted", "hf", "hf one slot"])
def test_conformance(kind: str, check: Any, folders: tuple[Path, Path]) -> None:
    asyncio.run(check(under_test(kind, folders)))


@pytest.mark.parametrize("check", conformance.CHECKS, ids=lambda check: check.__name__)
def test_conformance_of_a_mixture_of_experts(
    check: Any, mixtures: tuple[Path, Path], caplog: pytest.LogCaptureFixture
) -> None:
    asyncio.run(check(under_test("hf", mixtures)))
    assert "Qwen3MoeForCausalLM takes the generic path, one row at a time" in caplog.text
