"""Files of questions: single files, and folders of datasets in FlashRAG's layout.

A dataset is a folder with some of `train.jsonl`, `dev.jsonl` and `test.jsonl`, one file per split. Search-R1 uses `nq`,
`triviaqa`, `popqa`, `hotpotqa`, `2wikimultihopqa`, `musique` and `bamboogle`.
"""

from pathlib import Path
from typing import NamedTuple

from agentgym.errors import BadData
from agentgym.tasks.lines import COPY, find_path, stamp

SPLITS = ("train", "dev", "test")
"""Names of a dataset's splits, and of their files."""


class QuestionFile(NamedTuple):
    """A file of questions, with its modification time and size."""

    path: str
    changed: int
    bytes: int
    kind: str
    """Type given to the file's questions in reports; empty if there is only one file."""
    split: str
    """Split of all questions in the file; empty if each question names its split."""


def question_files(questions: str) -> tuple[QuestionFile, ...]:
    """Return the files in a comma-separated list of files, folders of a dataset, and folders of several datasets.

    Raises BadData if a file is missing, or if a folder has no dataset.
    """
    files: list[tuple[str, str]] = []
    for name in questions.split(","):
        path = find_path(name.strip(), Path.exists, "no file or folder", COPY)
        files += _in_folder(path) if path.is_dir() else [(str(path), "")]
    return tuple(QuestionFile(*stamp(path), _kind(path, len(files)), split) for path, split in files)


def _in_folder(folder: Path) -> list[tuple[str, str]]:
    """Return the files, with their splits, of a dataset or of all datasets in a folder.

    Raises:
        BadData: the folder has no dataset.
    """
    for folders in ([folder], sorted(path for path in folder.iterdir() if path.is_dir())):
        files = [(str(file), split) for subfolder in folders for split in SPLITS if (file := _file(subfolder, split))]
        if files:
            return files
    raise BadData(
        f"{folder} holds no set of questions; expected {', '.join(f'{split}.jsonl' for split in SPLITS)}, here or in folders"
    )


def _file(folder: Path, split: str) -> Path | None:
    return next((path for ending in ("jsonl", "jsonl.gz") if (path := folder / f"{split}.{ending}").is_file()), None)


def _kind(path: str, count: int) -> str:
    return Path(path).parent.name if count > 1 else ""
