"""LoRA adapters over a fleet of local servers: each version under a name of its own, also on a server that comes back."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve` is not installed")
pytest.importorskip("peft", reason="the extra `train` is not installed")
import tiny
import torch
import transformers
from fake_vllm import FakeVLLM
from fleet_servers import ask, expected, generated, over, running, tokens, until
from peft import LoraConfig

from agentgym.errors import BadConfig, BadData

pytestmark = pytest.mark.usefixtures("quick_fleet")


def adapter(base: Path, folder: Path, seed: int, rank: int = 4) -> Path:
    """Write an adapter that changes what is sampled."""
    model: Any = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32)
    torch.manual_seed(seed)
    model.add_adapter(LoraConfig(r=rank, lora_alpha=8, target_modules=["q_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM"))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_(std=0.5)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)  # so that the hf engine reads the folder too
    return folder


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tiny.folder(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module")
def adapters(base: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    made = [adapter(base, tmp_path_factory.mktemp("adapter"), seed) for seed in (1, 2)]
    assert expected(made[0], 3) != expected(made[1], 3), "or no version could be told from another"
    return made[0], made[1]


def serve(base: Path, number: int = 2, lora: int = 8) -> Any:
    return running(base, number, lora=lora)


def adapter_names(server: FakeVLLM) -> list[str]:
    return list(server.adapters)


def test_versions_follow_one_another_and_the_weights_stay(base: Path, adapters: tuple[Path, Path], tmp_path: Path) -> None:
    """Each version samples what hf samples with its adapter; the servers have it alone, and the folder given may go."""
    with serve(base) as servers:

        async def play() -> None:
            made = over(servers)
            assert tokens([await ask(made, number, 2) for number in range(3)]) == expected_of[base]
            for version, folder in enumerate([*adapters, adapters[0]], start=1):
                adapter_folder = tmp_path / f"v{version}"
                adapter_folder.mkdir()
                for file in folder.iterdir():
                    (adapter_folder / file.name).write_bytes(file.read_bytes())
                await made.load_weights(adapter_folder, version)
                for file in adapter_folder.iterdir():
                    file.unlink()
                got = [await ask(made, number, 2, session=f"{version} {number}") for number in range(3)]
                assert tokens(got) == expected_of[folder]
                assert {done.policy_version for episode in got for done in episode} == {version}
                names = {name for server in servers for name in adapter_names(server)}
                assert [len(adapter_names(server)) for server in servers] == [1, 1] and len(names) == 1
                assert next(iter(names)) == "agentgym-" + made.members.label.replace("/", "-")
            assert made.met == {} and all(server.requests["/update_weights"] == 0 for server in servers)
            made.close()

        expected_of = {folder: expected(folder, 3, 2) for folder in (base, *adapters)}
        asyncio.run(play())


def test_one_that_was_killed_serves_again_with_the_present_adapter_alone(base: Path, adapters: tuple[Path, Path]) -> None:
    with serve(base) as servers:
        first, _ = servers

        async def play() -> None:
            made = over(servers)
            await made.load_weights(adapters[0], 1)
            await asyncio.to_thread(first.kill)
            await made.load_weights(adapters[1], 2)
            await asyncio.to_thread(first.start)
            await until(lambda: len(made.members.serving) == 2)
            assert adapter_names(first) == adapter_names(servers[1]) and first.label == made.members.label
            made.members.leave_out(made.members.all[1], 0, "so that the first has to answer")
            before = generated(first)
            assert tokens([await ask(made, number, session=f"new {number}") for number in range(3)]) == want
            assert generated(first) > before
            made.close()

        want = expected(adapters[1], 3)
        asyncio.run(play())


@pytest.mark.long
@pytest.mark.parametrize(
    "path", ["/pause", "/v1/unload_lora_adapter", "/v1/load_lora_adapter", "/reset_prefix_cache", "/resume"]
)
@pytest.mark.parametrize("how", ["dies", "breaks"])
def test_a_server_that_fails_in_a_swap_gets_the_adapter_before_it_serves(
    path: str, how: str, base: Path, adapters: tuple[Path, Path]
) -> None:
    """It dies, or says 500, at each step of a swap; the other goes on with the new adapter, and it follows."""
    with serve(base) as servers:
        first, second = servers

        async def play() -> None:
            made = over(servers)
            await made.load_weights(adapters[0], 1)
            setattr(first, f"{how}_at", path)
            await made.load_weights(adapters[1], 2)
            assert [member.backend.url for member in made.members.serving] == [second.url]
            assert tokens([await ask(made, number) for number in range(3)]) == want
            if how == "dies":
                await asyncio.to_thread(first.kill)
                await asyncio.to_thread(first.start)
            else:
                assert first.label != made.members.label, "half of a swap under the whole one's label"
                first.breaks_at = ""
            await until(lambda: len(made.members.serving) == 2)
            assert adapter_names(first) == adapter_names(second)
            made.members.leave_out(made.members.all[1], 0, "so that the first has to answer")
            assert tokens([await ask(made, number, session=f"new {number}") for number in range(3)]) == want
            made.close()

        want = expected(adapters[1], 3)
        asyncio.run(play())


def test_a_server_that_was_started_again_unnoticed_is_left_out_by_its_first_request(
    base: Path, adapters: tuple[Path, Path]
) -> None:
    with serve(base) as servers:

        async def play() -> None:
            made = over(servers)
            await made.load_weights(adapters[0], 1)
            servers[0].adapters.clear()
            servers[0].label = "default"
            got = tokens(await asyncio.gather(*(ask(made, number) for number in range(4))))
            assert got == expected_ids and made.met["servers lost"] == 1
            await until(lambda: len(made.members.serving) == 2)
            made.close()

        expected_ids = expected(adapters[0], 4)
        asyncio.run(play())


def test_another_process_takes_over_the_name(base: Path, adapters: tuple[Path, Path]) -> None:
    with serve(base) as servers:

        async def play() -> None:
            made, beside = over(servers), over(servers)
            await made.load_weights(adapters[1], 5)
            beside.adopt(made.state())
            got = [await ask(beside, number) for number in range(2)]
            assert tokens(got) == want and {done.policy_version for (done,) in got} == {5} and beside.met == {}
            beside.close()
            made.close()

        want = expected(adapters[1], 2)
        asyncio.run(play())


def test_errors_that_teach(base: Path, adapters: tuple[Path, Path], tmp_path: Path) -> None:
    async def load(servers: list[FakeVLLM], *folders: Path) -> None:
        made = over(servers)
        try:
            for version, folder in enumerate(folders):
                await made.load_weights(folder, version)
        finally:
            made.close()

    with (
        serve(base, lora=0) as servers,
        pytest.raises(BadConfig, match=r"VLLM_ALLOW_RUNTIME_LORA_UPDATING=1 .*--enable-lora --max-lora-rank RANK"),
    ):
        asyncio.run(load(servers, adapters[0]))
    with serve(base, lora=2) as servers, pytest.raises(BadConfig, match="LoRA rank 4 is greater than max_lora_rank 2"):
        asyncio.run(load(servers, adapters[0]))
    with serve(base) as servers:
        with pytest.raises(BadConfig, match="the servers were sent whole weights before"):
            asyncio.run(load(servers, base, adapters[0]))
        broken = adapter(base, tmp_path / "broken", 3)
        (broken / "adapter_model.safetensors").unlink()
        with pytest.raises(BadData, match=r"holds no adapter_model\.safetensors"):
            asyncio.run(load(servers, adapters[0], broken))
