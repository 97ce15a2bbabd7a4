"""The pydantic side of the table of cases, and how problems are told."""

import pytest
from tests.unit.api.cases import ACCEPTED, REFUSED, Case, edited

from specfleet.api.validation import InvalidResource, Problem, validate


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.name)
def test_a_sensible_resource_is_read(case: Case) -> None:
    assert validate(case.resource).name == case.resource["metadata"]["name"]


@pytest.mark.fault("kaito-project/kaito#2286", "kaito-project/kaito#2303", "vllm#41821", "TRT-LLM#7283")
@pytest.mark.parametrize("case", REFUSED, ids=lambda case: case.name)
def test_a_wrong_resource_is_refused_with_the_field_and_the_cure(case: Case) -> None:
    with pytest.raises(InvalidResource) as raised:
        validate(case.resource)

    assert [
        problem
        for problem in raised.value.problems
        if problem.path.startswith(case.at) and case.says in problem.message
    ], raised.value.problems


def test_all_problems_are_told_at_once() -> None:
    resource = edited(
        Case("").resource,
        {"spec.engine.foo": 1, "spec.pools.0.name": "A", "spec.speculation.depth": {"max": 1}},
    )

    with pytest.raises(InvalidResource) as raised:
        validate(resource)

    assert [problem.path for problem in raised.value.problems] == [
        "spec.engine.foo",
        "spec.speculation.depth.initial",
        "spec.pools[0].name",
    ]


def test_no_message_repeats_a_value_since_it_may_be_a_secret() -> None:
    resource = edited(
        Case("").resource, {"spec.engine.env": [{"name": "A", "value": ["hunter2"], "extra": "hunter2"}]}
    )

    with pytest.raises(InvalidResource) as raised:
        validate(resource)

    assert "hunter2" not in str(raised.value)


def test_a_status_of_another_version_counts_as_empty() -> None:
    resource = Case("").resource | {
        "status": {"ready": "1/1", "pools": [{"name": "interactive", "state": "Newer"}]}
    }

    assert validate(resource).status.pools == ()


def test_a_status_keeps_what_this_version_knows_and_ignores_the_rest() -> None:
    resource = Case("").resource | {
        "status": {"ready": "1/1", "later": 1, "pools": [{"name": "a", "later": 2}]}
    }

    status = validate(resource).status

    assert (status.ready, status.pools[0].name) == ("1/1", "a")


@pytest.mark.parametrize("broken", [{}, {"metadata": None, "spec": None}, {"metadata": {}, "spec": []}])
def test_what_is_no_resource_at_all_is_refused_and_does_not_crash(broken: dict[str, object]) -> None:
    with pytest.raises(InvalidResource):
        validate(broken)


def test_a_problem_reads_as_path_and_cure() -> None:
    assert str(Problem("spec.pools", "is required")) == "spec.pools: is required"


def test_without_a_method_the_depths_are_zero() -> None:
    resource = edited(Case("").resource, {"spec.speculation": {"method": "none"}})

    depth = validate(resource).spec.speculation.depth

    assert (depth.initial, depth.max) == (0, 0)
