"""What the operator's configuration refuses, and in which words."""

import pytest
from pydantic import ValidationError

from specfleet.api.configuration import Configuration


def configuration(**leader_election: float) -> Configuration:
    images = {"builtin": "engine:1", "simulated": "simulated:1"}
    return Configuration.model_validate({"images": images, "leaderElection": leader_election})


@pytest.mark.parametrize(
    ("times", "told"),
    [
        # The others may take the lease while its holder still believes that it leads.
        ({"durationSeconds": 10}, "durationSeconds (10) must be more than renewDeadlineSeconds (10)"),
        ({"durationSeconds": 9.5}, "durationSeconds (9.5) must be more than renewDeadlineSeconds (10)"),
        # The first renewal comes when the deadline is over.
        ({"retrySeconds": 10}, "renewDeadlineSeconds (10), and that more than retrySeconds (10)"),
        ({"renewDeadlineSeconds": 1}, "renewDeadlineSeconds (1), and that more than retrySeconds (2)"),
    ],
)
def test_times_under_which_two_could_lead_or_none_lasts_are_refused(
    times: dict[str, float], told: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        configuration(**times)

    (problem,) = refused.value.errors()
    assert problem["loc"] == ("leaderElection",)
    assert told in problem["msg"]
    assert problem["msg"].endswith("write for example 15, 10 and 2")


def test_without_a_pause_between_two_renewals_nothing_starts() -> None:
    with pytest.raises(ValidationError) as refused:
        configuration(retrySeconds=0)

    assert [problem["loc"] for problem in refused.value.errors()] == [("leaderElection", "retrySeconds")]


def test_times_in_order_are_taken() -> None:
    taken = configuration(durationSeconds=30, renewDeadlineSeconds=20.5, retrySeconds=0.5).leader_election

    assert (taken.duration_seconds, taken.renew_deadline_seconds, taken.retry_seconds) == (30, 20.5, 0.5)
