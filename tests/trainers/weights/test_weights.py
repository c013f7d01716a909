"""What an engine is sent: the tensors that `save_pretrained` writes, gathered one at a time, in bounded files."""

import json
import weakref
from pathlib import Path

import pytest
import tiny
import torch
from safetensors.torch import load_file

from agentgym.engines import shards
from agentgym.engines.hf.engine import HFEngine
from agentgym.engines.vllm.transfer import check_devices, check_transport
from agentgym.errors import BadConfig, BadData
from agentgym.trainers import TrainConfig
from agentgym.trainers.weights.checkpoint import Checkpoint
from agentgym.trainers.weights.sync import InProcess, weight_sync

KINDS = [("Qwen3", True), ("Qwen3", False), ("Qwen2", False), ("Llama", True), ("Qwen3Moe", True), ("Mixtral", False)]


@pytest.mark.parametrize(("kind", "tied"), KINDS)
def test_tensors_are_those_of_the_saved_checkpoint(kind, tied, tmp_path):
    model = tiny.model(kind, tie_word_embeddings=tied)
    model.save_pretrained(tmp_path)
    saved = load_file(tmp_path / "model.safetensors")
    source = Checkpoint(model)
    sent = dict(source)
    assert {meta.name: (meta.dtype, meta.shape) for meta in source.metadata()} == {
        name: (value.dtype, tuple(value.shape)) for name, value in saved.items()
    }
    assert list(sent) == [meta.name for meta in source.metadata()]
    assert all(torch.equal(sent[name], saved[name]) for name in saved)
    assert ("lm_head.weight" in sent) != tied
    if "Moe" in kind:
        assert "model.layers.1.mlp.experts.3.gate_proj.weight" in sent  # stacked and fused in memory
    with torch.no_grad():
        model.model.norm.weight += 1
    assert torch.equal(dict(source)["model.norm.weight"], model.model.norm.weight)  # a fresh pass each time


def test_files_are_bounded_whole_and_removed(tmp_path):
    source = Checkpoint(tiny.model(tie_word_embeddings=True))
    limit, seen, sizes = 100_000, {}, []
    for sent in shards.shards(source, limit, str(tmp_path)):
        files = list(tmp_path.glob("*/*"))
        assert files == [Path(sent["path"])]  # one at a time
        sizes.append(sum(meta.bytes for meta in source.metadata() if meta.name in sent["names"]))
        assert sizes[-1] <= limit or len(sent["names"]) == 1
        assert load_file(sent["path"]).keys() == set(sent["names"])  # the library's own reader takes it
        seen.update({name: value.clone() for name, value in shards.read(sent)})
    assert len(sizes) > 3 and not list(tmp_path.iterdir())
    assert all(torch.equal(value, seen[name]) for name, value in source) and seen.keys() == shards.shapes(source).keys()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool, torch.float8_e4m3fn])
def test_every_type_arrives(dtype, tmp_path):
    value = torch.arange(6).reshape(2, 3).to(dtype)
    for sent in shards.shards(shards.Named([("a", value), ("b", torch.tensor(2.5)), ("c", value.T)]), folder=str(tmp_path)):
        got = dict(shards.read(sent))
        assert torch.equal(got["a"].float(), value.float()) and got["a"].dtype == dtype and got["b"].shape == ()
        assert torch.equal(got["c"].float(), value.T.float())


def test_files_are_removed_after_a_failure(tmp_path):
    files = shards.shards(Checkpoint(tiny.model()), 50_000, str(tmp_path))
    next(files)
    assert list(tmp_path.glob("*/*.safetensors"))
    files.close()
    assert not list(tmp_path.iterdir())

    class Lying(shards.Named):
        def __iter__(self):
            return iter([("b", torch.zeros(3))])

    with pytest.raises(BadData, match=r"'b' torch.float32 \[3\] came where 'a' torch.float32 \[2\] was announced"):
        next(shards.shards(Lying([("a", torch.zeros(2))]), folder=str(tmp_path)))
    assert not list(tmp_path.iterdir())


def test_damaged_files_are_told(tmp_path):
    for sent in shards.shards(shards.Named([("a", torch.zeros(2))]), folder=str(tmp_path)):
        with pytest.raises(BadData, match="lacks the tensor 'b', which was announced"):
            list(shards.read({**sent, "names": ["b"]}))
        with pytest.raises(BadData, match=r"'a' is torch.float32 \[2\]; float32 \[3\] was announced"):
            list(shards.read({**sent, "shapes": [[3]]}))
        path = Path(sent["path"])
        path.write_bytes(path.read_bytes()[:-1])
        with pytest.raises(BadData, match="damaged"):
            list(shards.read(sent))
    with pytest.raises(BadData, match="damaged"):
        list(shards.read(sent))


def test_messages_of_a_folder(tmp_path):
    model = tiny.model(tie_word_embeddings=True)
    model.save_pretrained(tmp_path, max_shard_size="100KB")
    found = shards.messages(tmp_path)
    assert len(found) > 2
    assert {name: shape for sent in found for name, shape in shards.announced(sent)} == shards.shapes(Checkpoint(model))
    Path(found[1]["path"]).unlink()
    with pytest.raises(BadData, match=r"model-00002-of-.*damaged"):
        shards.messages(tmp_path)
    with pytest.raises(BadData, match="expected a model folder"):
        shards.messages(tmp_path / "none")


def test_a_model_in_this_process_is_only_told():
    model = tiny.model()
    sync = weight_sync(model, HFEngine(model, None, slots=1))
    assert isinstance(sync, InProcess)
    with pytest.raises(BadConfig, match="weights cannot be sent to HFEngine"):
        weight_sync(tiny.model(), HFEngine(model, None, slots=1))


def test_transports_are_refused_where_they_cannot_work(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for transport in ("ipc", "nccl"):
        with pytest.raises(BadConfig, match=f"'{transport}' needs a CUDA device, and this machine has none"):
            check_transport(transport)
    check_transport("shared_memory")
    with pytest.raises(BadConfig, match="the trainer is on GPU 0 and the engine on GPU 1; use 'nccl'"):
        check_devices("ipc", 0, [1])
    with pytest.raises(BadConfig, match="GPU 1, which the engine has too; give the engine separate GPUs"):
        check_devices("nccl", 1, [1, 2])
    with pytest.raises(BadConfig, match="on a CPU"):
        check_devices("nccl", None, [0])
    check_devices("ipc", 0, [0])
    check_devices("nccl", 0, [1])


def test_settings_that_do_nothing_are_refused():
    with pytest.raises(BadConfig, match="weight_transport is 'ipc', but only engine 'vllm' is sent any, not 'hf'"):
        TrainConfig(weight_transport="ipc")
    with pytest.raises(LookupError, match="Did you mean 'shared_memory'"):
        TrainConfig(engine="vllm", model="m", weight_transport="shared_memry")
    for name in ("context", "device", "dtype"):
        with pytest.raises(BadConfig, match=rf"engine\.{name} is not an option of a run"):
            TrainConfig(engine_options={name: 1})
    TrainConfig(engine="vllm", model="m", engine_options={"dtype": "float32"})


# Sharded parameters, by two real processes


class Watch:
    """Counts the full tensors that were made, and those alive at once."""

    def __init__(self):
        self.gathered = self.alive = self.most = 0

    def __call__(self, whole):
        self.gathered += 1
        self.alive += 1
        self.most = max(self.most, self.alive)
        weakref.finalize(whole, self._gone)
        return whole

    def _gone(self):
        self.alive -= 1


def send_sharded(rank: int, folder: str, kinds: list[str]) -> None:
    """One of two processes: shard a model, send it to files of its own, and note what was held at once."""
    import torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import DTensor

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{folder}/meet", rank=rank, world_size=2)
    gather, notes = DTensor.full_tensor, {}
    for kind in kinds:
        model = tiny.model(kind, tie_word_embeddings=True)
        for layer in model.model.layers:
            fully_shard(layer)
        fully_shard(model)
        sharded = sum(isinstance(value, DTensor) for value in model.parameters())
        watch, got = Watch(), {}
        DTensor.full_tensor = lambda self, watch=watch, **options: watch(gather(self, **options))
        for sent in shards.shards(Checkpoint(model), 50_000, folder):
            got.update({name: value.clone() for name, value in shards.read(sent)})
        whole = dict(Checkpoint(tiny.model(kind, tie_word_embeddings=True)))
        equal = got.keys() == whole.keys() and all(torch.equal(got[name], whole[name]) for name in whole)
        notes[kind] = {"equal": equal, "most": watch.most, "gathered": watch.gathered, "sharded": sharded}
    Path(folder, f"{rank}.json").write_text(json.dumps(notes))
    dist.destroy_process_group()


@pytest.mark.long
def test_sharded_parameters_are_gathered_one_at_a_time(tmp_path):
    kinds = ["Qwen3", "Qwen3Moe"]
    torch.multiprocessing.spawn(send_sharded, (str(tmp_path), kinds), nprocs=2)
    for rank in range(2):
        notes = json.loads((tmp_path / f"{rank}.json").read_text())
        for kind in kinds:
            note = notes[kind]
            assert note["equal"] and note["gathered"] == note["sharded"] > 20 and note["most"] == 1, (kind, note)
