"""Compose files of Harbor's tasks: what is read, and that what reaches this machine is refused with the reason."""

import pytest
from test_harbor_files import write

from agentgym.envs.terminal.harbor.files import load
from agentgym.errors import BadConfig, BadData
from agentgym.sandbox.docker.services import Service, in_order

FULL = """
x-common: &common
  environment: {A: "1", B: "${FLAVOR:-plain}", C: "${COLOR}"}
services:
  main:
    build: {context: "${CONTEXT_DIR}"}
    command: ["sh", "-c", "sleep infinity"]
    environment: ["D=4", "E=$$HOME"]
    volumes: ["${HOST_VERIFIER_LOGS_PATH}:${ENV_VERIFIER_LOGS_PATH}", "shared:/shared:ro"]
    depends_on:
      db: {condition: service_healthy}
    networks: [inner]
  db:
    <<: *common
    image: postgres:17
    command: postgres -c "fsync=off"
    expose: ["5432"]
    restart: always
    mem_limit: 512m
    deploy: {resources: {limits: {cpus: "0.5"}}}
    tmpfs: /run
    volumes:
      - {type: volume, source: shared, target: /data}
    networks:
      inner: {aliases: [database]}
    healthcheck: {test: pg_isready, interval: 1m30s, retries: 7}
  cache:
    build: ./cache
    depends_on: [db]
    networks: [inner]
volumes:
  shared:
networks:
  inner: {internal: true}
"""


def task(path, compose, toml='[environment]\nenv = { COLOR = "red" }\n'):
    folder = write(path / "t", toml, **{"environment__docker-compose_yaml": compose})
    (folder / "environment" / "cache").mkdir()
    (folder / "environment" / "cache" / "Dockerfile").write_text("FROM x\n")
    return folder


def read(path, compose, **options):
    (found,) = load(task(path, compose, **options)).values()
    return found.place


def test_services_are_read(tmp_path):
    place = read(tmp_path, FULL)
    assert place.beside is not None and place.command == ()
    assert place.variables == {"D": "4", "E": "$HOME", "COLOR": "red"}
    assert place.beside.volumes == (("shared", "/shared", True),) and place.beside.networks == {"inner": ("main",)}
    db, cache = place.beside.services
    assert db.environment == {"A": "1", "B": "plain", "C": "red"}
    assert (db.image, db.command, db.cpus, db.memory_mb) == ("postgres:17", ("postgres", "-c", "fsync=off"), 0.5, 512)
    assert db.volumes == (("shared", "/data", False),) and db.networks == {"inner": ("database",)}
    assert db.health is not None and (db.health["Interval"], db.health["Retries"]) == (90_000_000_000, 7)
    assert cache.needs == {"db": "service_started"} and cache.build.endswith("environment/cache")


def test_the_main_service_may_run_something_else(tmp_path):
    assert read(tmp_path, "services: {main: {command: 'run.sh --fast'}}\n").command == ("run.sh", "--fast")


def test_a_network_that_is_shared(tmp_path):
    services = "a: {image: x, network_mode: 'service:main'}, b: {image: x, network_mode: 'service:a'}"
    place = read(tmp_path, f"services: {{{services}, c: {{image: x, network_mode: none}}}}\n")
    assert place.beside is not None and [(s.shares, s.networks) for s in place.beside.services] == [
        ("main", {}),
        ("a", {}),
        ("", {}),
    ]


REFUSED = {
    "privileged: true": "runs privileged",
    "cap_add: [SYS_ADMIN]": "chooses capabilities",
    "security_opt: ['seccomp:unconfined']": "security options",
    "ports: ['80:80']": "publishes ports",
    "network_mode: host": "chooses a network",
    "network_mode: bridge": "chooses a network",
    "network_mode: 'container:1234'": "chooses a network",
    "network_mode: 'service:'": "chooses a network",
    "network_mode: 'service:a/../b'": "chooses a network",
    "network_mode: [none]": "chooses a network",
    "pid: host": "leaves its name space",
    "ipc: host": "leaves its name space",
    "userns_mode: host": "leaves its name space",
    "cgroup_parent: /": "leaves its name space",
    "devices: ['/dev/kvm']": "devices",
    "runtime: nvidia": "how the daemon runs it",
    "sysctls: {a: 1}": "how the daemon runs it",
    "secrets: [s]": "a file of this machine",
    "env_file: .env": "a file of this machine",
    "extends: {file: ../x.yaml, service: a}": "a file of this machine",
    "volumes_from: [main]": "what other containers have",
    "extra_hosts: ['a:host-gateway']": "hosts outside",
    "volumes: ['/:/host']": "mounts '/'",
    "volumes: ['./data:/data']": "mounts './data'",
    "volumes: ['/var/run/docker.sock:/s']": "mounts '/var/run/docker.sock'",
    "volumes: [{type: bind, source: v, target: /x}]": "mounts 'bind v'",
    "volumes: [{type: volume, source: v, target: /x, bind: {propagation: shared}}]": "mounts",
    "volumes: ['v:/x/../etc']": "mounts 'v'",
    "volumes: [{type: volume, source: v, target: '/x:/y'}]": "mounts 'v'",
    "volumes: ['${HOST_VERIFIER_LOGS_PATH}/..:/x']": "a variable of this machine",
    "environment: [HOME]": "a variable of this machine",
    "environment: {A: '${HOME}'}": "a variable of this machine",
    "environment: {A: '$HOME'}": "a variable of this machine",
    "environment: {HOME: }": "a variable of this machine",
    "build: {context: ../..}": "build context",
    "build: {context: /}": "build context",
    "build: {context: ./cache, args: {A: b}}": "build has 'args'",
    "build: {context: ./cache, dockerfile: ../Dockerfile}": "dockerfile is",
    "healthcheck: {test: [RUN, x]}": "healthcheck",
    "networks: [host]": "network 'host'",
    "deploy: {replicas: 9}": "deploy has more",
    "mem_limit: lots": "'lots'",
    "use_api_socket: true": "'use_api_socket' is not understood",
    "depends_on: [nobody]": "'nobody'",
}


@pytest.mark.parametrize("service", ["main", "side"])
@pytest.mark.parametrize("line", REFUSED)
def test_what_reaches_this_machine_is_refused(line, service, tmp_path):
    compose = f"services:\n  {service}:\n    image: x\n    {line}\nvolumes:\n  v:\n"
    with pytest.raises(BadData, match=REFUSED[line]):
        read(tmp_path, compose)


@pytest.mark.parametrize(
    ("compose", "words"),
    [
        ("services: {a: {image: x}}\nvolumes: {v: {driver_opts: {type: none, o: bind, device: /}}}\n", "driver_opts"),
        ("services: {a: {image: x}}\nvolumes: {v: {external: true}}\n", "external"),
        ("services: {a: {image: x}}\nnetworks: {n: {driver: host}}\n", "driver"),
        ("services: {a: {image: x}}\nnetworks: {n: {external: true, name: bridge}}\n", "external"),
        ("services: {a: {image: x}}\ninclude: [../x.yaml]\n", "'include' is not understood"),
        ("services: {a: {image: x}}\nsecrets: {s: {file: /etc/shadow}}\n", "'secrets' is not understood"),
        ("services: {a: {}}\n", "no image and no build"),
        ("services: {a: {image: ../containers/x}}\n", "no name of one"),
        ("services: {main: {image: '-x'}}\n", "the image is '-x'"),
        ("services: {a: {image: x, network_mode: 'service:b'}}\n", "needs 'b'"),
        ("services: {a: {image: x, network_mode: none, networks: [default]}}\n", "both networks and network_mode"),
        ("services: {main: {network_mode: 'service:a'}, a: {image: x}}\n", "chooses a network"),
        ("services: {main: {network_mode: none}}\n", "chooses a network"),
        ("services: {'a/b': {image: x}}\n", "not one of a host"),
        ("services: [a]\n", "expected a table"),
        ("services: !!python/object/apply:os.system ['true']\n", "could not determine a constructor"),
        ("a: &a [1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n"
         "d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\ne: [*d,*d,*d,*d,*d,*d,*d,*d]\n", "more than 5000 values"),
        ("services: &a {a: *a}\n", "more than 5000 values"),
        ("#" * 100_001, "100001 bytes"),
    ],
)  # fmt: skip
def test_files_that_are_none(compose, words, tmp_path):
    with pytest.raises(BadData, match=words):
        read(tmp_path, compose)


def test_a_link_out_of_the_folder_is_no_build_context(tmp_path):
    folder = task(tmp_path, "services: {side: {build: ./out}}\n")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "Dockerfile").write_text("FROM x\n")
    (folder / "environment" / "out").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(BadData, match="build context"):
        load(folder)


def test_services_start_after_what_they_need():
    order = in_order([Service("a", needs={"b": ""}), Service("b", needs={"c": ""}), Service("c")])
    assert [service.name for service in order] == ["c", "b", "a"]
    with pytest.raises(BadConfig, match="in a circle"):
        in_order([Service("a", needs={"b": ""}), Service("b", needs={"a": ""})])
