"""What every image of ours has in common."""

import time
from collections.abc import Mapping

import pytest
from tests.e2e.support import Kube, wait_for

# Of a pod that ignores SIGTERM.
GRACE_SECONDS = 60
BUSY = "import time; print('busy', flush=True); time.sleep(600)"


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", ["operator", "simulated", "preflight", "engine"])
def test_a_program_that_has_no_answer_to_sigterm_yet_ends_by_it(
    kube: Kube, namespace: str, images: Mapping[str, str], name: str
) -> None:
    container = {
        "name": name,
        "image": images[name],
        "command": ["python", "-c", BUSY],
        "resources": {"requests": {"cpu": "20m"}},
    }
    metadata = {"name": name, "namespace": namespace}
    spec = {"containers": [container], "terminationGracePeriodSeconds": GRACE_SECONDS}
    kube.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    logs = ("logs", name, "-n", namespace)
    wait_for("it runs", lambda: "busy" in kube.run(*logs, check=False).stdout, seconds=60)

    told = time.monotonic()
    kube.run("delete", "pod", name, "-n", namespace, "--wait", "--timeout=120s")

    assert time.monotonic() - told < GRACE_SECONDS / 2
