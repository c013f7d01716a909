"""Scripts without spaces between words: found in memory, on disk and behind an address, and English scored as before."""

import re
from collections.abc import Generator
from pathlib import Path

import bm25s
import numpy as np
import pytest
from retrievers import ids, serving, write_corpus

from agentgym.retrieval import Document, Retriever
from agentgym.retrieval.client import Client
from agentgym.retrieval.disk import build_disk_index
from agentgym.retrieval.documents import parts, words
from agentgym.retrieval.memory import Corpus

DOCUMENTS = [
    Document("zh", "东京", "东京是日本的首都，也是日本最大的城市。"),
    Document("zh2", "北京", "北京是中国的首都。"),
    Document("ja", "富士山", "富士山は日本で一番高い山です。"),
    Document("ko", "서울", "서울은 대한민국의 수도이다."),
    Document("th", "กรุงเทพมหานคร", "กรุงเทพมหานครเป็นเมืองหลวงของประเทศไทย"),
    Document("lo", "ວຽງຈັນ", "ວຽງຈັນເປັນນະຄອນຫຼວງຂອງປະເທດລາວ"),
    Document("km", "ភ្នំពេញ", "ភ្នំពេញជារាជធានីនៃប្រទេសកម្ពុជា"),
    Document("my", "ရန်ကုန်", "ရန်ကုန်သည်မြန်မာနိုင်ငံ၏အကြီးဆုံးမြို့ဖြစ်သည်"),
    Document("ban", "ᬩᬮᬶ", "ᬩᬮᬶᬧᬸᬮᭀᬲᬦᬾᬂᬇᬦ᭄ᬤᭀᬦᬾᬰ᭄ᬬ"),
    Document("txg", "𗼇𗟲", "𗼇𗟲𗤒𗖵𗍳"),
    Document("wide", "型番", "ＡＢＣ１２３の価格表"),
    Document("en", "Kyoto", "Kyoto was the capital of Japan."),
    Document("fr", "Élan", "Un élan naïve café"),
]
QUERIES = [
    ("日本首都", "zh"),
    ("中国的首都在哪里", "zh2"),
    ("一番高い山", "ja"),
    ("서울에서", "ko"),
    ("수도", "ko"),
    ("เมืองหลวงของประเทศ", "th"),
    ("ນະຄອນຫຼວງ", "lo"),
    ("រាជធានី", "km"),
    ("မြန်မာ", "my"),
    ("ᬧᬸᬮᭀ", "ban"),
    ("𗟲𗤒", "txg"),
    ("abc123", "wide"),
    ("ABC123価格", "wide"),
    ("Kyotoへ", "en"),
    ("café", "fr"),
]


@pytest.fixture(scope="module", params=["memory", "disk", "served"])
def retriever(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Retriever]:
    folder = tmp_path_factory.mktemp("scripts")
    corpus = write_corpus(folder / "corpus.jsonl", DOCUMENTS)
    if request.param == "memory":
        yield Corpus(DOCUMENTS)
    elif request.param == "disk":
        yield build_disk_index(corpus, folder / "index")
    else:
        with serving("--corpus", corpus) as (url, _):
            yield Client(url)


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_a_query_finds_its_document(retriever: Retriever, query: str, expected: str) -> None:
    assert ids(retriever, query, 1) == [expected]


def test_memory_and_disk_score_alike(tmp_path: Path) -> None:
    disk = build_disk_index(write_corpus(tmp_path / "c.jsonl", DOCUMENTS), tmp_path / "index")
    queries = [query for query, _ in QUERIES]
    for one, other in zip(Corpus(DOCUMENTS).search(queries, 20), disk.search(queries, 20), strict=True):
        assert [hit.document.id for hit in one] == [hit.document.id for hit in other]
        assert [hit.score for hit in one] == pytest.approx([hit.score for hit in other], rel=1e-4)


def test_english_is_scored_by_words_alone() -> None:
    """The oracle is bm25s over the words, which is all that a corpus had before parts: the same bits."""
    texts = ["the red fox", "a red (赤い) whale – naïve", "東京 Tokyo red tower", "green boat of Zoë’s"]
    documents = [Document(str(number), "", text) for number, text in enumerate(texts)]
    tokens = [re.findall(r"\w+", f" {text}".lower()) for text in texts]
    vocabulary = {word: number for number, word in enumerate(dict.fromkeys(word for line in tokens for word in line))}
    index = bm25s.BM25(method="lucene", k1=1.2, b=0.75, backend="numpy")
    index.index(([[vocabulary[word] for word in line] for line in tokens], dict(vocabulary)), show_progress=False)
    for query in ("red", "red tower", "naïve zoë", "tokyo"):
        scores = index.get_scores_from_ids([vocabulary[word] for word in re.findall(r"\w+", query)])
        [hits] = Corpus(documents).search([query], 4)
        best = [(str(number), float(scores[number])) for number in np.argsort(-scores, kind="stable") if scores[number] > 0]
        assert [(hit.document.id, hit.score) for hit in hits] == best


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain English, naïve café – “quoted”", []),
        ("北京", ["北", "京", "北京"]),
        ("北。京", ["北", "京"]),  # no pair across a sign
        ("ไทย", ["ไ", "ท", "ย", "ไท", "ทย"]),
        ("มืด", ["มื", "ด", "มืด"]),  # a mark stays on its letter
        ("iPhone价格", ["iphone", "价", "格", "价格"]),
        ("ＡＢ１", ["ab1"]),
        ("ｱｲ", ["ア", "イ", "アイ"]),
        ("price 1\u0e31", ["1"]),  # a mark without a letter is nothing
    ],
)
def test_parts(text: str, expected: list[str]) -> None:
    assert parts(text) == expected


def test_words_are_what_they_were() -> None:
    assert words("Tokyo東京 Zoë’s") == ["tokyo東京", "zoë", "s"]
