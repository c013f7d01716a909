"""Search at scale: python benchmarks/retrieval.py [--documents 1000000] [--folder FOLDER] [--kinds bm25s,tantivy,dense,http]

Makes passages of a hundred words (Zipf's law over 200,000 words), indexes them, and asks 1, 32 and 256 queries at once. Each
retriever is measured in a process of its own; what is in FOLDER already is used again. The kind `hnsw` is for fewer
documents, or for hours.
"""

import argparse
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from agentgym.retrieval import Retriever

VOCABULARY, LENGTH, DIMENSION = 200_000, 100, 256
AT_ONCE = (1, 32, 256)
SECONDS = 8.0  # of each measurement
OWN_MEMORY = ("Pss", "Private_Clean", "Private_Dirty", "Shared_Clean", "Shared_Dirty")


def words(rng: np.random.Generator, count: int) -> np.ndarray:
    """Return numbers of words, the k-th as frequent as 1 / k."""
    return np.minimum(np.exp(rng.random(count) * np.log(VOCABULARY)).astype(np.int64), VOCABULARY - 1)


def write_passages(path: Path, documents: int) -> None:
    rng = np.random.default_rng(0)
    with path.with_suffix(".part").open("w", encoding="utf-8") as file:
        for start in range(0, documents, 10_000):
            size = min(10_000, documents - start)
            for row, number in enumerate(words(rng, size * LENGTH).reshape(size, LENGTH), start):
                text = " ".join(f"w{word}" for word in number)
                file.write(json.dumps({"id": str(row), "contents": f'"Title {row}"\n{text}'}) + "\n")
    path.with_suffix(".part").rename(path)


def queries(count: int, seed: int) -> list[str]:
    """Return queries of six words, drawn as passages are but for the ten most frequent words."""
    drawn = words(np.random.default_rng(seed), count * 60)
    frequent = drawn[drawn > 10][: count * 6].reshape(count, 6)
    return [" ".join(f"w{word}" for word in query) for query in frequent]


def make_encoder(folder: Path) -> str:
    """Save an encoder whose vector of a text is the mean of random vectors of its words."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import StaticEmbedding
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    if not (folder / "modules.json").exists():
        vocabulary = {"[UNK]": 0, **{f"w{word}": word + 1 for word in range(VOCABULARY)}}
        tokenizer = Tokenizer(WordLevel(vocabulary, unk_token="[UNK]"))
        tokenizer.pre_tokenizer = Whitespace()
        weights = np.random.default_rng(1).standard_normal((len(vocabulary), DIMENSION)).astype(np.float32)
        SentenceTransformer(modules=[StaticEmbedding(tokenizer, embedding_weights=weights)], device="cpu").save(str(folder))
    return str(folder)


def memory() -> dict[str, int]:
    """Return the MiB of this process: resident, at its peak, and what is its own and what shared."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    found = {line.split(":")[0]: int(line.split()[1]) >> 10 for line in lines if line.startswith(("VmRSS", "VmHWM"))}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        if (name := line.split(":")[0]) in OWN_MEMORY:
            found[name] = int(line.split()[1]) >> 10
    return found


def report(name: str, **values: object) -> None:
    print(f"{name}: {', '.join(f'{key} {value}' for key, value in values.items())}", flush=True)


def measure(name: str, ask: Callable[[list[str], int], None]) -> None:
    """Print queries per second, and the median of a batch's time; `ask` puts so many queries at once."""
    for at_once in AT_ONCE:
        batches, took, began, cpu = queries(20_000, at_once), list[float](), time.perf_counter(), time.process_time()
        start = 0
        while time.perf_counter() - began < SECONDS or not took:
            started = time.perf_counter()
            ask(batches[start : start + at_once], at_once)
            took.append(time.perf_counter() - started)
            start = (start + at_once) % (len(batches) - at_once)
        seconds, count = time.perf_counter() - began, len(took) * at_once
        report(
            f"{name}, {at_once} at once",
            queries_per_second=f"{count / seconds:,.1f}",
            queries_per_second_of_cpu=f"{count / (time.process_time() - cpu):,.1f}",
            median_ms=f"{1000 * sorted(took)[len(took) // 2]:.1f}",
        )


def search(name: str, retriever: Retriever) -> None:
    began = time.perf_counter()
    retriever.search(["w20 w300"], 3)
    report(f"{name}, first search", seconds=f"{time.perf_counter() - began:.1f}", **memory())
    measure(name, lambda batch, _: (retriever.search(batch, 3), None)[1])
    report(f"{name}, after the queries", **memory())


def bm25s(folder: Path) -> None:
    from agentgym.retrieval.documents import read_corpus
    from agentgym.retrieval.memory import Corpus

    began = time.perf_counter(), time.process_time()
    corpus = Corpus(read_corpus(str(folder / "passages.jsonl")))
    corpus.search(["w20"], 1)
    report(
        "bm25s, build",
        seconds=f"{time.perf_counter() - began[0]:.0f}",
        cpu=f"{time.process_time() - began[1]:.0f}",
        **memory(),
    )
    search("bm25s", corpus)


def tantivy(folder: Path) -> None:
    from agentgym.retrieval.disk import build_disk_index

    began = time.perf_counter(), time.process_time()
    index = build_disk_index(str(folder / "passages.jsonl"), folder / "tantivy")
    report(
        "tantivy, build",
        seconds=f"{time.perf_counter() - began[0]:.0f}",
        cpu=f"{time.process_time() - began[1]:.0f}",
        **memory(),
    )
    sizes(folder / "tantivy")
    del index


def dense(folder: Path, search: str) -> None:
    from agentgym.retrieval.dense import build_dense_index

    encoder = make_encoder(folder / "encoder")
    began = time.perf_counter(), time.process_time()
    build_dense_index(str(folder / "passages.jsonl"), folder / f"dense-{search}", encoder, search=search)
    took = {"seconds": f"{time.perf_counter() - began[0]:.0f}", "cpu": f"{time.process_time() - began[1]:.0f}"}
    report(f"dense {search}, build", **took, **memory())
    sizes(folder / f"dense-{search}")


def encoding(_: Path) -> None:
    """Time a BERT of E5-base's shape, random weights: what encoding costs, apart from searching."""
    import torch
    from transformers import BertConfig, BertModel

    torch.set_num_threads(1)
    model = BertModel(BertConfig()).eval()
    for what, rows, length in (("passages of 128 tokens", 8, 128), ("queries of 16 tokens, one by one", 1, 16)):
        ids, count = torch.randint(1000, 30_000, (rows, length)), 0
        began, cpu = time.perf_counter(), time.process_time()
        with torch.inference_mode():
            while time.perf_counter() - began < SECONDS:
                model(input_ids=ids)
                count += rows
        took = time.perf_counter() - began, time.process_time() - cpu
        report(
            f"encoding {what}, 12 layers of 768",
            per_second=f"{count / took[0]:.1f}",
            per_second_of_cpu=f"{count / took[1]:.1f}",
        )


def sizes(folder: Path) -> None:
    found = {
        path.name: sum(p.stat().st_size for p in ([path] if path.is_file() else path.rglob("*")))
        for path in folder.iterdir()
    }
    report(
        f"{folder.name}, MiB on disk",
        **{name: size >> 20 for name, size in found.items()},
        together=sum(found.values()) >> 20,
    )


def spelled(folder: Path, name: str) -> str:
    """Return the name of an index as a retriever."""
    kind = name.partition("-")[0]
    return f"{kind}:{folder / name}" + (f":{folder / 'encoder'}" if kind == "dense" else "")


def opened(folder: Path, name: str) -> None:
    """Open an index that is there; beside another process that searches it too, where it says that it does."""
    from agentgym.retrieval.opening import open_retriever

    began = time.perf_counter()
    retriever = open_retriever(spelled(folder, name))
    report(f"{name}, open", seconds=f"{time.perf_counter() - began:.2f}", **memory())
    search(name, retriever)


def shared(folder: Path, name: str) -> None:
    """Hold one index in two processes that search it, and say what each has of its own."""
    code = (
        "import sys; sys.path.insert(0, 'benchmarks'); import retrieval as r;"
        "from agentgym.retrieval.opening import open_retriever;"
        f"x = open_retriever('{spelled(folder, name)}'); x.search(r.queries(200, 5), 3);"
        "print('ready', flush=True); sys.stdin.readline(); r.report('one of two processes', **r.memory())"
    )
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both = [subprocess.Popen([sys.executable, "-c", code], **pipes) for _ in range(2)]
    for process in both:
        assert process.stdout is not None
        process.stdout.readline()
    for process in both:
        print(f"{name}, {process.communicate(chr(10))[0].strip()}", flush=True)


def http(folder: Path, name: str) -> None:
    """Ask a server in a process of its own over as many connections as queries are to be there at once."""
    from agentgym.retrieval.client import Client

    flags = ["--index", str(folder / name), "--port", "0", "--cache", "0", "--threads", "2"]
    command = [sys.executable, "-m", "agentgym", "serve", "retriever", *flags]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        client = Client(server.stdout.readline().split(" at ")[1].split()[0], timeout=60)

        def ask(batch: list[str], _: int) -> None:
            threads = [threading.Thread(target=client.search, args=([query], 3)) for query in batch]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        measure(f"http over {name}, one query a request", ask)
        measure(f"http over {name}, all in one request", lambda batch, _: (client.search(batch, 3), None)[1])
        server.terminate()
        print(server.stdout.read().strip(), flush=True)


PARTS: dict[str, tuple[tuple[Callable[..., None], tuple[str, ...]], ...]] = {
    "bm25s": ((bm25s, ()),),
    "tantivy": ((tantivy, ()), (opened, ("tantivy",)), (shared, ("tantivy",))),
    "dense": (
        *((dense, (search,)) for search in ("flat", "ivf")),
        *((opened, (f"dense-{search}",)) for search in ("flat", "ivf")),
        (shared, ("dense-flat",)),
        (encoding, ()),
    ),
    "hnsw": ((dense, ("hnsw",)), (opened, ("dense-hnsw",))),
    "http": ((http, ("tantivy",)),),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--documents", type=int, default=1_000_000)
    parser.add_argument("--folder", type=Path, default=Path("runs/retrieval"))
    parser.add_argument("--kinds", default="bm25s,tantivy,dense,http")
    parser.add_argument("--part", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.part:
        name, *arguments = options.part.split(":")
        globals()[name](options.folder, *arguments)
        return
    options.folder.mkdir(parents=True, exist_ok=True)
    passages = options.folder / "passages.jsonl"
    if not passages.exists():
        write_passages(passages, options.documents)
    report("passages", documents=options.documents, MiB=passages.stat().st_size >> 20)
    for kind in options.kinds.split(","):
        for part, arguments in PARTS[kind]:
            label = ":".join([part.__name__, *arguments])
            load = os.getloadavg()[0]
            subprocess.run([sys.executable, __file__, "--folder", str(options.folder), "--part", label], check=True)
            report("load of the machine", before=f"{load:.1f}", after=f"{os.getloadavg()[0]:.1f}", cores=os.cpu_count())


if __name__ == "__main__":
    main()
