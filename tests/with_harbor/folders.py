"""Task folders that cover Harbor's format, each with a solution. The network mode of all is `public`."""

import json
from pathlib import Path

DOCKERFILE = "FROM agentgym-test/app\nWORKDIR /app\n"  # no RUN: the tests' daemon has no network for it
TOML = '[environment]\nnetwork_mode = "public"\nmemory_mb = 256\n'
SEPARATE = '[verifier]\nenvironment_mode = "separate"\n'
ONE = 'grep -qsx "{}" /app/out && echo 1 > /logs/verifier/reward.txt || echo {} > /logs/verifier/reward.txt\n'
METRICS = 'grep -qs 1 /app/out && n=0.75 || n=0.25\nprintf \'{"a": 1, "b": %s}\' $n > /logs/verifier/reward.json\n'
ANSWER = '[ "$(cat {} 2> /dev/null)" = "$(cat /tests/answer)" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n'
SOLVE = "echo 1 > /app/out\n"


def steps(*names: str, toml: str = "", **least: object) -> str:
    tables = [f'[[steps]]\nname = "{name}"\n' + (f"min_reward = {least[name]}\n" if name in least else "") for name in names]
    return f"{toml}\n{TOML}" + "".join(tables)


def step(name: str, number: object, otherwise: float = 0, solve: str | None = None) -> dict[str, str]:
    return {
        f"steps/{name}/instruction.md": f"Write {number} to out.\n",
        f"steps/{name}/tests/test.sh": ONE.format(number, otherwise),
        f"steps/{name}/solution/solve.sh": solve or f"echo {number} > /app/out\n",
    }


def plain(toml: str = TOML, test: str = ONE.format(1, 0), solve: str = SOLVE, **more: str) -> dict[str, str]:
    return {"task.toml": toml, "instruction.md": "Write 1.\n", "tests/test.sh": test, "solution/solve.sh": solve, **more}


FOLDERS: dict[str, dict[str, str]] = {
    "shared": plain(),
    "metrics": plain(test=METRICS),
    "half": plain(test=ONE.format(1, 0.5)),
    "variables": plain(
        f'{TOML}[environment.env]\nA = "1"\n[verifier.env]\nB = "2"\n[solution.env]\nC = "3"\n',
        '[ "$(cat /app/out 2> /dev/null)$A$B" = 1312 ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        'echo "$A$C" > /app/out\n',
    ),
    "health": plain(
        f'{TOML}[environment.healthcheck]\ncommand = "echo 1 > /app/up"\n', "cp /app/up /logs/verifier/reward.txt\n"
    ),
    "users": plain(
        f'{TOML}[agent]\nuser = "nobody"\n[verifier]\nuser = "daemon"\n',
        '[ "$(id -un) $(cat /app/out)" = "daemon nobody" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        "id -un > /app/out\n",
    ),
    "separate-copy": plain(f'artifacts = ["/app/out"]\n{TOML}{SEPARATE}'),
    "separate-without-artifacts": plain(f"{TOML}{SEPARATE}"),
    "separate-published": plain(
        f"{TOML}{SEPARATE}", ANSWER.format("/logs/artifacts/x"), "cp /etc/hostname /tmp/h; echo 42 > /logs/artifacts/x\n"
    )
    | {"tests/answer": "42\n"},
    "separate-dockerfile": plain(
        f'artifacts = ["/app/out"]\n{TOML}{SEPARATE}[verifier.environment]\nnetwork_mode = "public"\n',
        ANSWER.format("/app/out"),
        "echo 42 > /app/out\n",
    )
    | {"tests/answer": "42\n", "tests/Dockerfile": "FROM agentgym-test/app\nWORKDIR /app\nCOPY . /tests/\n"},
    "hooks": plain(
        f'artifacts = ["/app/late"]\n{TOML}{SEPARATE}[[verifier.collect]]\ncommand = "cp out late"\n',
        "cp /app/late /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
    ),
    "exclude": plain(
        f'artifacts = [{{source = "/app", exclude = ["*.log", "tmp"]}}]\n{TOML}{SEPARATE}',
        "[ -e /app/out ] && n=1 || n=0\nls /app/x.log /app/tmp/y && n=0.5\necho $n > /logs/verifier/reward.txt\n",
        "mkdir /app/tmp; touch /app/x.log /app/tmp/y /app/out; ln -s /tests /app/l\n",
    ),
    "steps-mean": {"task.toml": steps("a", "b"), **step("a", 1, 0.5), **step("b", 2)},
    "steps-final": {
        "task.toml": steps("a", "b", toml='multi_step_reward_strategy = "final"'),
        **step("a", 1, solve="true\n"),
        **step("b", 2),
    },
    "steps-stop": {"task.toml": steps("a", "b", a=0.8), **step("a", 1, 0.5), **step("b", 2)},
    "steps-stop-by-metric": {
        "task.toml": steps("a", "b", a="{ b = 0.7 }"),
        **step("a", 1),
        **step("b", 2),
        "steps/a/tests/test.sh": METRICS,
    },
    "steps-shared-files": {
        "task.toml": steps("a", "b"),
        **step("a", 1),
        **step("b", 2),
        "steps/b/workdir/setup.sh": "echo 2 > ready\n",
        "steps/b/workdir/given": "2\n",
        "steps/b/solution/solve.sh": "cat /app/given > /app/out; rm /app/ready; ls /tests/* && rm /app/out; true\n",
        "tests/helper": "x\n",
        "tests/test.sh": "[ -s /tests/helper ] && echo 1 > /logs/verifier/reward.txt\n",
    },
    "steps-separate": {
        "task.toml": steps("a", "b") + '[steps.verifier]\nenvironment_mode = "separate"\n',
        **step("a", 1),
        **step("b", 2),
    },
}
FOLDERS["steps-separate"]["task.toml"] = (
    f'{TOML}[[steps]]\nname = "a"\nartifacts = ["/app/out"]\n[steps.verifier]\nenvironment_mode = "separate"\n'
    '[[steps]]\nname = "b"\n'
)

PYTHON = "agentgym-test/python"
LISTENS = "python3 -c \"import socket; socket.create_connection(('localhost', 8000))\""
WEB = """
import os, pathlib
from http.server import BaseHTTPRequestHandler, HTTPServer
class Web(BaseHTTPRequestHandler):
    def do_GET(self):
        pathlib.Path("/seen").write_text("1")
        self.send_response(200)
        self.end_headers()
        self.wfile.write(os.environ.get("ANSWER", "1").encode())
HTTPServer(("0.0.0.0", 8000), Web).serve_forever()
"""
ASK = "python3 -c \"import urllib.request as r; print(r.urlopen('http://{}:8000/').read().decode())\" > /app/out\n"
WEB_IMAGE = {
    "environment/web/Dockerfile": f'FROM {PYTHON}\nCOPY web.py /\nCMD ["python3", "/web.py"]\n',
    "environment/web/web.py": WEB,
}
HEALTHY = f"    healthcheck: {{test: {json.dumps(LISTENS)}, interval: 1s, retries: 60}}\n"
SIDE = f"  web:\n    build: ./web\n{HEALTHY}"
WAIT = "for i in 1 2 3 4 5 6 7 8 9; do [ -s /app/begun ] || sleep 1; done; cp /app/begun /app/out\n"
IDLE = '    command: ["sh", "-c", "sleep infinity"]\n'
MCP = '[[environment.mcp_servers]]\nname = "tools"\ntransport = "{}"\n{}\n'
SERVER = (Path(__file__).parents[1] / "with_docker" / "mcp_server.py").read_text()


def compose(services: str, more: str = "", toml: str = TOML, **files: str) -> dict[str, str]:
    return plain(toml, **{"environment/docker-compose.yaml": f"services:\n{services}{more}", **WEB_IMAGE, **files})


FOLDERS |= {
    "mcp-stdio": plain(TOML + MCP.format("stdio", 'command = "python3"\nargs = ["/srv/server.py", "stdio"]'))
    | {
        "environment/Dockerfile": f"{DOCKERFILE}COPY server.py secret /srv/\n",
        "environment/server.py": SERVER,
        "environment/secret": "1",
    },
    "mcp-http": compose(
        f"  web:\n    build: ./web\n    command: python3 /server.py http 8000\n{HEALTHY}",
        toml=TOML + MCP.format("streamable-http", 'url = "http://web:8000/mcp"'),
    )
    | {
        "environment/web/Dockerfile": f"FROM {PYTHON}\nCOPY server.py /\nCOPY secret /srv/\n",
        "environment/web/server.py": SERVER,
        "environment/web/secret": "1",
    },
    "compose-side": compose(SIDE, **{"solution/solve.sh": ASK.format("web")}),
    "compose-variables": compose(
        f'{SIDE}    environment: {{ANSWER: "${{ANSWER}}"}}\n',
        toml=f'{TOML}[environment.env]\nANSWER = "1"\n',
        **{"solution/solve.sh": ASK.format("web")},
    ),
    "compose-networks": compose(
        f"  main:\n    networks: [inner]\n{SIDE}    networks: {{inner: {{aliases: [www]}}}}\n",
        "networks:\n  inner:\n",
        **{"solution/solve.sh": ASK.format("www")},
    ),
    "compose-apart": compose(
        f"  main:\n    networks: [one]\n{SIDE}    networks: [two]\n",
        "networks:\n  one:\n  two:\n",
        **{"solution/solve.sh": f"{ASK.format('web')}[ -s /app/out ] || echo 1 > /app/out\n"},
    ),
    "compose-volume": compose(
        '  main:\n    volumes: ["data:/v:ro"]\n    depends_on: {fill: {condition: service_completed_successfully}}\n'
        f'  fill:\n    image: {PYTHON}\n    command: ["sh", "-c", "echo 1 > /v/one"]\n    volumes: ["data:/v"]\n',
        "volumes:\n  data:\n",
        **{"solution/solve.sh": "touch /v/x; cat /v/* > /app/out\n"},
    ),
    "compose-artifacts": compose(
        SIDE,
        toml=f'artifacts = [{{source = "/late", service = "web"}}]\n{TOML}{SEPARATE}[[verifier.collect]]\n'
        'command = "cp /seen /late"\nservice = "web"\n',
        **{
            "solution/solve.sh": ASK.format("web"),
            "tests/test.sh": "cp /late /logs/verifier/reward.txt || echo 0 > /logs/verifier/reward.txt\n",
        },
    ),
    "compose-main": compose(
        f'  main:\n    build: {{context: "${{CONTEXT_DIR}}"}}\n{IDLE}    environment: ["A=1"]\n',
        **{"solution/solve.sh": 'echo "$A" > /app/out\n'},
    ),
    "compose-main-command": compose(
        '  main:\n    command: ["sh", "-c", "echo 1 > /app/begun; sleep infinity"]\n',
        **{"solution/solve.sh": WAIT},
    ),
    "entrypoint": plain(solve=WAIT)
    | {"environment/Dockerfile": f'{DOCKERFILE}ENTRYPOINT ["sh", "-c", "echo 1 > /app/begun; exec \\"$@\\"", "sh"]\n'},
    "ready-image": plain(f'{TOML}docker_image = "agentgym-test/app"\nworkdir = "/app"\n'),
    "workdir": plain(
        f'{TOML}workdir = "/srv"\n',
        '[ "$(pwd) $(cat /app/out)" = "/srv /srv" ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        "pwd > /app/out\n",
    )
    | {"environment/Dockerfile": f"{DOCKERFILE}WORKDIR /srv\n"},
    "older-spellings": plain(
        'version = "1.0"\n[environment]\nallow_internet = true\nmemory = "256M"\nstorage = "1G"\ncpus = 0.5\n'
    ),
    "skills": plain(f'{TOML}skills_dir = "/skills"\n', solve="cat /skills/one/SKILL.md > /app/out\n")
    | {"environment/Dockerfile": f"{DOCKERFILE}COPY skills /skills\n", "environment/skills/one/SKILL.md": "1\n"},
    "defaults-of-variables": plain(
        f'{TOML}[solution.env]\nA = "${{AGENTGYM_NOT_SET:-1}}"\n[verifier.env]\nB = "${{AGENTGYM_NOT_SET:-1}}"\n',
        '[ "$(cat /app/out)$B" = 11 ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
        'echo "$A" > /app/out\n',
    ),
    "image-user": plain(solve="id -un > /app/out\n")
    | {
        "environment/Dockerfile": f"{DOCKERFILE}USER nobody\n",
        "tests/test.sh": '[ "$(cat /app/out)" = nobody ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
    },
    "files-of-the-image": plain(solve="cp /srv/given /app/out\n")
    | {"environment/Dockerfile": f"{DOCKERFILE}COPY given /srv/\n", "environment/given": "1\n"},
    "separate-image": plain(
        f'artifacts = ["/app/out"]\n{TOML}{SEPARATE}[verifier.environment]\nnetwork_mode = "public"\n'
        'docker_image = "agentgym-test/verifier"\nworkdir = "/app"\n',
    ),
    "hooks-of-users": plain(
        f'artifacts = ["/app/who"]\n{TOML}{SEPARATE}[[verifier.collect]]\ncommand = "id -un > who; cat out >> who"\n'
        'user = "nobody"\n[[verifier.collect]]\ncommand = "exit 3"\n',
        '[ "$(tr "\\n" - < /app/who)" = nobody-1- ] && n=1 || n=0\necho $n > /logs/verifier/reward.txt\n',
    ),
    "steps-health": {
        "task.toml": steps("a", "b") + '[steps.healthcheck]\ncommand = "test -s /app/ready"\n',
        **step("a", 1, 0.5),
        **step("b", 2),
        "steps/b/workdir/ready": "1\n",
    },
    "steps-users": {
        "task.toml": steps("a", "b") + '[steps.agent]\nuser = "nobody"\ntimeout_sec = 60\n',
        **step("a", "root", solve="id -un > /app/out; chmod 666 /app/out\n"),
        **step("b", "nobody", solve="id -un > /app/out\n"),
    },
}
