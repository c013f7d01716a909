"""The tasks of the small repository of `swe_files`, by id."""

import pytest
import swe_files

from agentgym.envs.swe.tasks import read


@pytest.fixture(scope="module")
def tasks(tmp_path_factory):
    return {task.id: task for task in read(swe_files.make(tmp_path_factory.mktemp("swe")))}
