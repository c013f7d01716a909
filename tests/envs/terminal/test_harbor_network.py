"""Networks that Harbor's tasks state, and what a caller lets them have; checked beside harbor 0.26.0's task model."""

import pytest
from test_harbor_files import write

from agentgym.envs.terminal.harbor.files import load
from agentgym.envs.terminal.harbor.network import Policy, options
from agentgym.errors import BadConfig, BadData

NO, ALL, SOME = Policy("no-network"), Policy("public"), Policy("allowlist", ("index.test", "*.test", "10.0.0.0/8", "::1"))
LIST = 'network_mode = "allowlist"\nallowed_hosts = ["Index.Test.", "*.test", "10.0.0.0/8", "::0001"]\n'


@pytest.mark.parametrize(
    ("toml", "agent", "verifier"),
    [
        ("", Policy(), Policy()),
        ('[environment]\nnetwork_mode = "no-network"\n[verifier]\nnetwork_mode = "public"\n', NO, ALL),
        (f'[environment]\n{LIST}[agent]\nnetwork_mode = "no-network"\n', NO, SOME),
        ("[environment]\nallow_internet = false\n", NO, NO),
        ('[environment]\nallow_internet = false\nnetwork_mode = "public"\n', ALL, ALL),
    ],
)
def test_a_phase_has_its_own_policy_or_the_environments(toml, agent, verifier, tmp_path):
    (task,) = load(write(tmp_path / "t", toml)).values()
    assert (task.steps[0].network, task.steps[0].verifier.network) == (agent, verifier)


@pytest.mark.parametrize(
    "lines",
    [
        'network_mode = "none"',
        'allowed_hosts = ["a.test"]',
        'network_mode = "public"\nallowed_hosts = ["a.test"]',
        *(
            f'network_mode = "allowlist"\nallowed_hosts = [{host}]'
            for host in (
                '"http://a.test"',
                '"a.test:80"',
                '"*"',
                '"a.*.test"',
                '"*.10.0.0.1"',
                '"10.0.0.1/8"',
                '""',
                "3",
                '"-a"',
            )
        ),
    ],
)
def test_what_the_format_does_not_have_is_refused(lines, tmp_path):
    with pytest.raises(BadData, match=r"network_mode|allowed_hosts"):
        load(write(tmp_path / "t", f"[environment]\n{lines}\n"))


@pytest.mark.parametrize(
    ("policy", "network", "expected"),
    [
        (Policy(), "stated", {"network": "none"}),
        (Policy(), "task", {"network": "bridge"}),
        (Policy(), "mine", {"network": "mine"}),
        (ALL, "stated", {"network": "bridge"}),
        (ALL, "none", {"network": "none"}),
        (NO, "mine", {"network": "none"}),
        (SOME, "none", {"network": "none"}),
        (SOME, "stated", {"network": "bridge", "allowed_hosts": SOME.hosts}),
        (SOME, "mine", {"network": "mine", "allowed_hosts": SOME.hosts}),
    ],
)
def test_the_caller_caps_it(policy, network, expected):
    assert options(policy, network, "docker") == expected


def test_backends_without_a_proxy_refuse_lists():
    assert options(ALL, "stated", "harbor") == {"network": "public"}
    with pytest.raises(BadConfig, match="use docker"):
        options(SOME, "stated", "harbor")
