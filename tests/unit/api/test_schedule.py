"""The operator reads a schedule file as strictly as the engines that have to follow it."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.schedule_example import EXAMPLE

from specfleet.api.schedule import Document, to_rows
from specfleet_serving.schedule import parse


def test_the_example_of_the_contract_is_read_and_written_as_it_stands() -> None:
    assert json.loads(Document.from_json(json.dumps(EXAMPLE)).to_json()) == EXAMPLE


# A human's edits. Each was taken for good once, or raised what nobody expected, and was never put right.
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"table": [{"maxRequests": "8", "depth": 5}, {"depth": 0}]}, "maxRequests must be a whole number"),
        ({"table": [{"maxRequests": 8.5, "depth": 5}, {"depth": 0}]}, "maxRequests must be a whole number"),
        ({"table": [{"maxRequests": None, "depth": 5}]}, "maxRequests must be a whole number"),
        ({"table": [{"depth": "2"}]}, "depth must be a whole number"),
        ({"table": [{"depth": True}]}, "depth must be a whole number"),
        ({"table": [{"depth": 2, "why": "load"}]}, "not 'why'"),
        ({"table": []}, "at least one row"),
        ({"table": {"depth": 2}}, "wrong type"),
        ({"version": "13"}, "version must be a whole number"),
        ({"version": 2**53 + 1}, "version must be a whole number"),
        ({"format": True}, "format must be a whole number"),
        ({"format": 2}, "this operator writes 1"),
        ({"issuedAt": "2026-01-01T00:00:00"}, "lacks its zone"),
        ({"issuedAt": "yesterday"}, "yesterday"),
        ({"issuedAt": None}, "wrong type"),
    ],
)
def test_what_engines_or_the_tuner_cannot_use_is_a_value_error_with_its_reason(
    change: dict[str, Any], words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        Document.from_json(json.dumps(EXAMPLE | change))


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "null", "[" * 100_000])
def test_what_is_no_object_is_a_value_error(text: str) -> None:
    with pytest.raises(ValueError):
        Document.from_json(text)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*EXAMPLE, "depth"]), inner),
)
ROWS = st.lists(
    st.fixed_dictionaries({"depth": st.integers(-1, 9)}, optional={"maxRequests": st.integers(-1, 9)}),
    max_size=3,
)


@given(change=st.dictionaries(st.sampled_from(list(EXAMPLE)), JSON | ROWS))
def test_what_the_operator_takes_for_good_an_engine_follows(change: dict[str, Any]) -> None:
    text = json.dumps(EXAMPLE | change)
    try:
        document = Document.from_json(text)
    except ValueError:
        return

    followed = parse(text, engine_max_depth=document.max_depth)

    assert [(row.max_requests, row.depth) for row in followed.table] == [
        (row.get("maxRequests"), row["depth"]) for row in to_rows(document.table)
    ]
