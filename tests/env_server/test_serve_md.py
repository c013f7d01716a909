"""docs/guides/serve.md: its programs run, its table is the server's."""

import re
import sys
from pathlib import Path

import pytest

pytest.importorskip("uvicorn", reason="the extra `serve-env` is not installed")
from served_envs import running

from agentgym.env_server.app import _ROUTES
from agentgym.registry import Maker

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "serve.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"(<!-- not run.*-->\n)?```python\n(.*?)```", PAGE, re.DOTALL)


def test_the_program_of_a_client_runs(capsys):
    (client,) = (program for skip, program in PROGRAMS if not skip and "httpx2" in program)
    with running(Maker("frozenlake", {}), token="TOKEN") as (url, _):
        exec(client.replace("http://127.0.0.1:8000", url), {})
    assert re.fullmatch(r"[\d.]+ (success|failure|horizon)\n", capsys.readouterr().out)


def test_the_program_of_an_environment_runs():
    pytest.importorskip("mcp", reason="the extra `mcp` is not installed")
    (program,) = (program for skip, program in PROGRAMS if not skip and "McpEnv" in program)
    server = Path(__file__).resolve().parents[1] / "fakes" / "mcp_server.py"
    names: dict = {}
    exec(program.replace("python server.py", f"{sys.executable} {server}"), names)
    env = names["Sums"]()
    env.reset(seed=1)
    assert env.step('{"name": "add", "arguments": {"a": 2, "b": 3}}')[0] == "5"
    assert env.step(f"answer[{env.task.data['sum']}]")[1] == 1.0
    env.close()


def test_the_table_lists_what_there_is():
    named = set(
        re.findall(r"(?:GET|POST) ((?:`?/\w+`?(?:, )?)+)`? \|", PAGE.replace("`GET ", "GET ").replace("`POST ", "POST "))
    )
    assert set(_ROUTES) | {"/health"} == {path for cell in named for path in re.findall(r"/\w+", cell)}
