"""Renamed options: whoever uses an old name is told the new one."""

RENAMED = {
    "warm_episodes": "sft_episodes",
    "warm_batch": "sft_batch",
    "warm_lr": "sft_lr",
    "warm_muon": "sft_muon",
    "warm_noise": "sft_noise",
    "warm_invalid": "sft_invalid",
    "warm_forget": "sft_forget",
    "weighing": "loss_aggregation",
    "ratio": "importance_sampling_level",
    "mismatch_cap": "tis_cap",
    "negative": "negative_advantage_weight",
    "checkpointing": "gradient_checkpointing",
    "lr_decay": "min_lr_ratio",
    "weights": "weight_transport",
    "pieces": "pre_tokenizer",
    "player": "policy",
    "law": "check",
    "worlds": "envs",
    "dynamic_sampling": "select",
    "refill_rounds": "select.rounds",
}
"""Keys of recipes and suites, and flags without their dashes; `TABLE.KEY` for what is an option of a stage now."""


def new_name(old: str) -> str | None:
    """Return what an option is called now, spelled as it was given (`--old-name` or `old_name`); None for others."""
    new = RENAMED.get(old.removeprefix("--").replace("-", "_"))
    if not (new and old.startswith("--")):
        return new
    return f"--{new.replace('_', '-')}"
