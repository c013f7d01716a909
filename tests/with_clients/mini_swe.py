"""The real mini-swe-agent with its own configuration, run in the clients' environment.

Tasks come as lines of JSON on standard input (base_url, api_key, model, task, steps, textbased) and are played a few at a
time; for each a line is printed. No command is ever run: the environment answers every one with text of its own.
"""

import json
import os
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

os.environ["MSWEA_SILENT_STARTUP"] = "1"
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or importing litellm asks a server for prices
import yaml
from answers import tell
from minisweagent import package_dir
from minisweagent.agents.default import DefaultAgent
from minisweagent.exceptions import Submitted
from minisweagent.models.litellm_model import LitellmModel
from minisweagent.models.litellm_textbased_model import LitellmTextbasedModel

UNAME = {"system": "Linux", "release": "6.1", "version": "1", "machine": "x86_64"}


class Canned:
    """An environment in mini-swe-agent's sense that runs nothing: it answers with canned text and ends by itself."""

    def __init__(self, steps: int) -> None:
        self.config: dict[str, Any] = {}
        self.steps, self.commands = steps, []

    def execute(self, action: dict[str, Any], cwd: str = "") -> dict[str, Any]:
        self.commands.append(action["command"])
        if len(self.commands) >= self.steps:
            raise Submitted({"role": "exit", "content": "", "extra": {"exit_status": "Submitted", "submission": "done"}})
        text = f"{len(self.commands)}\n" + "README.md  setup.cfg  src  <|im_end|> \ttests\n" * 3
        return {"output": text, "returncode": 0, "exception_info": ""}

    def get_template_vars(self, **_: Any) -> dict[str, Any]:
        return UNAME

    def serialize(self) -> dict[str, Any]:
        return {}


def play(line: str) -> dict[str, Any]:
    job = json.loads(line)
    file = "mini_textbased.yaml" if job["textbased"] else "mini.yaml"
    config = yaml.safe_load((package_dir / "config" / file).read_text())
    kind = LitellmTextbasedModel if job["textbased"] else LitellmModel
    access = {"api_base": job["base_url"], "api_key": job["api_key"], "max_tokens": 96, "temperature": 1.0}
    options = {**config["model"], "model_kwargs": {**config["model"]["model_kwargs"], **access}}
    model = kind(model_name=f"openai/{job['model']}", cost_tracking="ignore_errors", **options)
    env = Canned(job["steps"])
    wanted = {name: config["agent"][name] for name in ("system_template", "instance_template")}
    agent = DefaultAgent(model, env, **wanted, step_limit=2 * job["steps"], max_consecutive_format_errors=0)
    end = agent.run(job["task"])
    replies = [m for m in agent.messages if m["role"] == "assistant"]
    messages = [(m["extra"]["response"]["choices"][0]["message"]) for m in replies]
    return {
        "key": job["api_key"],
        "end": end["exit_status"],
        "commands": env.commands,
        "said": messages,
        "calls": agent.n_calls,
    }


with ThreadPoolExecutor(8) as pool:
    for found in pool.map(play, sys.stdin):
        tell(found)
