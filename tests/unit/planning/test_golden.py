"""The rendered objects, kept as files: an operator that renders anything else rolls every pod when it starts.

After a change that is meant to roll pods: SPECFLEET_WRITE_GOLDEN=1 pytest tests/unit/planning/test_golden.py
"""

import os
from pathlib import Path

import pytest
import yaml
from tests.unit.planning.builders import NOON, a_configuration, an_empty_cluster
from tests.unit.planning.resources import RESOURCES

from specfleet.planning.plan import plan

GOLDEN = Path(__file__).parent / "golden"


def rendered(name: str) -> str:
    configuration = a_configuration(allowedServiceAccounts=["inference"])
    found = plan(RESOURCES[name], configuration, an_empty_cluster(pod_monitors_served=True), NOON)
    assert found.refusals == ()
    return yaml.safe_dump_all([desired.body for desired in found.desired], sort_keys=True, width=110)


@pytest.mark.parametrize("name", RESOURCES)
def test_objects_are_rendered_as_the_release_before_did(name: str) -> None:
    file = GOLDEN / f"{name}.yaml"
    if os.environ.get("SPECFLEET_WRITE_GOLDEN"):
        file.write_text(rendered(name))

    assert rendered(name) == file.read_text()
