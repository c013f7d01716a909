"""Tools and tasks: what the manifest declares, against what the server lists."""

from typing import Any

import httpx
from openenv.validation.graders import Subject
from openenv.validation.manifest import NormalizedManifest

from rlvr_openenv_graders.base import NotMeasured, ServedGrader
from rlvr_openenv_graders.wire import Refused, Served


class ToolDeclarationAccuracy(ServedGrader):
    """The declared tools are those that MCP's `tools/list` names, or the field `tools` of the first observation."""

    check_id = "runtime.tool_declaration_accuracy"
    remediation = "List in capabilities.declared_tools the names of the tools that the server offers, no more and no fewer."

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Compare the names."""
        declared = set(subject.manifest.capabilities.declared_tools)
        listed = _listed(served)
        offered = declared if listed is None and not declared else listed or set[str]()
        found = [f"the tool {name!r} is declared and not offered" for name in sorted(declared - offered)]
        found += [f"the tool {name!r} is offered and not declared" for name in sorted(offered - declared)]
        return found, {"declared": sorted(declared), "offered": None if listed is None else sorted(listed)}


def _listed(served: Served) -> set[str] | None:
    """Return the tools that the server names; None if it names tools nowhere."""
    request = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    names: set[str] | None = None
    answer = httpx.post(f"{served.url}/mcp", json=request, timeout=30, trust_env=False)
    result = answer.json().get("result") if answer.is_success else None
    tools = result.get("tools") if isinstance(result, dict) else None
    if isinstance(tools, list):
        names = {str(tool.get("name")) for tool in tools if isinstance(tool, dict)}
    observation = served.episode(actions=())[0].get("observation")
    tools = observation.get("tools") if isinstance(observation, dict) else None
    if isinstance(tools, list):
        found = {_name(tool) for tool in tools}
        names = found | (names or set())
    return names


def _name(tool: object) -> str:
    """Return the name of a tool: a text, `{"name"}`, or OpenAI's `{"function": {"name"}}`."""
    if isinstance(tool, dict):
        inner = tool.get("function")
        return str((inner if isinstance(inner, dict) else tool).get("name"))
    return str(tool)


class TaskDeclarationAccuracy(ServedGrader):
    """Each declared split exists, has as many tasks as declared, and its last task can be read and played."""

    check_id = "runtime.task_declaration_accuracy"
    remediation = "Declare in capabilities.declared_task_count what num_tasks() returns for each split, and serve every one."

    def applies_to(self, manifest: NormalizedManifest) -> bool:
        """Environments that list tasks, or declare how many there are."""
        return manifest.capabilities.task_api or bool(manifest.capabilities.declared_task_count)

    def problems(self, served: Served, subject: Subject) -> tuple[list[str], dict[str, Any]]:
        """Ask the server for its splits, counts and last tasks."""
        with httpx.Client(base_url=served.url, timeout=30, trust_env=False) as client:
            names = client.get("/list_environments")
            listed = names.json() if names.is_success else []
            if not listed:
                raise NotMeasured("the server lists no environment at /list_environments")
            base = f"/{listed[0]}"
            answer = client.get(f"{base}/splits")
            if not answer.is_success:
                return [f"{base}/splits answers {answer.status_code}: the task API is declared and not served"], {}
            splits = [str(split.get("name")) for split in answer.json()]
            found, counts = list[str](), dict[str, Any]()
            for split, count in sorted(subject.manifest.capabilities.declared_task_count.items()):
                if split not in splits:
                    found.append(f"the split {split!r} is declared and not listed")
                    continue
                answer = client.post(f"{base}/num_tasks", json={"split": split})
                counts[split] = answer.json().get("num_tasks") if answer.is_success else None
                if counts[split] != count:
                    found.append(f"the split {split!r} has {counts[split]} tasks; {count} are declared")
                    continue
                if count < 1:
                    continue
                last = client.post(f"{base}/task", json={"split": split, "index": count - 1})
                if not last.is_success:
                    found.append(f"the last task of {split!r} is answered with {last.status_code}")
                    continue
                try:
                    served.episode({"seed": 0, "episode_id": "last", "split": split, "index": count - 1}, ())
                except Refused as error:
                    found.append(f"the last task of {split!r} cannot be played: {error}")
        return found, {"splits": splits, "counts": counts}
