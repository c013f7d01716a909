"""Logs of Harbor 0.26.0 and inspect_ai 0.3.285, in the shape their programs write them."""

import json
import zipfile
from pathlib import Path

STEPS = [
    {"step_id": 1, "source": "user", "message": "Do it."},
    {
        "step_id": 2,
        "source": "agent",
        "message": "I do.",
        "tool_calls": [{"tool_call_id": "1", "function_name": "bash", "arguments": {"command": "ls"}}],
        "observation": {"results": [{"source_call_id": "1", "content": "a"}]},
    },
]
DOCUMENT = {"schema_version": "ATIF-v1.8", "agent": {"name": "x", "version": "1"}, "steps": STEPS}


def trial(job: Path, name: str, rewards, *, task: str = "hello", exception=None, steps: bool = False) -> None:
    folder = job / name
    (folder / ("steps/a/agent" if steps else "agent")).mkdir(parents=True)
    result = {"trial_name": name, "task_name": task, "agent_info": {"name": "codex", "version": "1"}}
    result["verifier_result"] = None if rewards is None else {"rewards": rewards}
    result["exception_info"] = exception
    (folder / "result.json").write_text(json.dumps(result))
    (folder / ("steps/a/agent" if steps else "agent") / "trajectory.json").write_text(json.dumps(DOCUMENT))


def job(folder: Path, first: float = 1.0) -> Path:
    (folder).mkdir()
    (folder / "result.json").write_text('{"n_total_trials": 3}')
    trial(folder, "hello__a", {"reward": first})
    trial(folder, "hello__b", {"one": 1, "two": 0.5}, steps=True)
    trial(folder, "other__c", {"reward": 0}, task="other")
    return folder


def sample(number: int, value, **changes) -> dict:
    messages = [
        {"role": "system", "content": "Be good."},
        {"role": "user", "content": [{"type": "text", "text": "1 + 1?"}]},
        {
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "hm"}, {"type": "text", "text": "I count."}],
            "tool_calls": [{"id": "1", "function": "python", "arguments": {"code": "1 + 1"}, "type": "function"}],
        },
        {"role": "tool", "content": "2", "tool_call_id": "1"},
        {"role": "assistant", "content": "2"},
    ]
    scores = {"match": {"value": value}}
    return {"id": number, "epoch": 1, "input": "1 + 1?", "target": "2", "messages": messages, "scores": scores, **changes}


def log(file: Path, samples: list[dict]) -> Path:
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps({"version": 2, "eval": {"task": "arith"}}))
        for entry in samples:
            archive.writestr(f"samples/{entry['id']}_epoch_{entry['epoch']}.json", json.dumps(entry))
    return file
