"""Mistakes that are reported before torch is asked for: here it is not installed."""

import subprocess
import sys
from pathlib import Path

from agentgym.core.folders import alone
from agentgym.trainers.config.recipe_files import to_toml
from agentgym.trainers.config.train_config import TrainConfig

WITHOUT = """
import sys
sys.modules["torch"] = None  # as if it were not there
from agentgym.cli import main
sys.exit(main(sys.argv[1:]))
"""
WITH = """
import atexit, sys
atexit.register(lambda: print("heavy:", [name for name in ("torch", "transformers") if name in sys.modules]))
from agentgym.cli import main
sys.exit(main(sys.argv[1:]))
"""


TYPOS = {
    ("credit", "gigop"): "gigpo",
    ("loss", "cipso"): "cispo",
    ("sampler", "unifrom"): "uniform",
    ("select", "kepe"): "keep",
    ("generation", "plian"): "plain",
    ("reward", "lenght"): "length",
    ("learner", "locla"): "local",
    ("loggers", "wandbb"): "wandb",
}
EACH = f"""
import sys
sys.modules["torch"] = None
from agentgym.cli import main
sys.exit(max(main(["train", "household", f"--{{field}}", typo]) for field, typo in {[*TYPOS]}))
"""


def output_of(folder: Path, *words: str, code: str = WITHOUT) -> tuple[str, str]:
    done = subprocess.run([sys.executable, "-c", code, *words], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 2, done
    return done.stdout, done.stderr


def test_a_typo_in_the_name_of_a_stage(tmp_path: Path) -> None:
    errors = [line for line in output_of(tmp_path, code=EACH)[1].splitlines() if line.startswith("error: ")]
    for error, meant in zip(errors, TYPOS.values(), strict=True):
        assert f"Did you mean '{meant}'" in error


def test_without_a_typo_torch_is_what_is_missing(tmp_path: Path) -> None:
    assert "training needs torch" in output_of(tmp_path, "train", "household", "--credit", "grpo", "--loss", "cispo")[1]


ONLY_API = """
import sys
for name in ("torch", "transformers", "huggingface_hub"):
    sys.modules[name] = None
from agentgym.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_a_bare_name_where_only_the_client_of_apis_is_installed(tmp_path: Path) -> None:
    _, error = output_of(tmp_path, "eval", "guessnumber", "--model", "gpt-x", "--tasks", "1", code=ONLY_API)
    assert "hf:gpt-x needs" in error and "A model behind an API is chat:openai/gpt-x" in error
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    assert "chat:" not in output_of(tmp_path, "eval", "guessnumber", "--model", "model", "--tasks", "1", code=ONLY_API)[1]


def test_the_lock_of_a_folder(tmp_path: Path) -> None:
    run, model = tmp_path / "run", tmp_path / "model"
    for folder in (run, model):
        folder.mkdir()
    (run / "config.toml").write_text(to_toml(TrainConfig()))
    (model / "config.json").write_text("{}")
    with alone(run, "training run"):
        for what, words in (
            ("training run", ["train", "--resume", "run"]),
            ("evaluation", ["eval", "guessnumber", "--model", "model", "--out", "run"]),
        ):
            out, error = output_of(tmp_path, *words, code=WITH)
            assert f"another {what} is writing to run" in error and "heavy: []" in out
        (run / "config.toml").unlink()  # as of a run that just begins
        out, error = output_of(tmp_path, "train", "household", "--out", "run", code=WITH)
        assert "another training run is writing to run" in error and "heavy: []" in out
