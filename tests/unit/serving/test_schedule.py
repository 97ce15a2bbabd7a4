"""What a schedule file must say, when it may follow another, and which depth a load gets."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.schedule_example import EXAMPLE

from specfleet_serving.schedule import (
    STEPS_INSIDE_BAND,
    DepthChooser,
    Reason,
    Refused,
    Row,
    check_succession,
    flat,
    parse,
)


def test_the_example_of_the_contract_is_read_as_it_stands() -> None:
    document = parse(json.dumps(EXAMPLE), engine_max_depth=5)

    assert (document.version, document.fence, document.max_depth) == (12, 7, 5)
    assert document.table == (Row(8, 5), Row(48, 2), Row(None, 0))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        pytest.param({"format": 2}, Reason.UNKNOWN_FORMAT, id="newer-format"),
        pytest.param({"format": True}, Reason.UNKNOWN_FORMAT, id="format-is-no-number"),
        pytest.param({"version": "12"}, Reason.WRONG_TYPE, id="version-is-text"),
        pytest.param({"version": True}, Reason.WRONG_TYPE, id="version-is-boolean"),
        pytest.param({"version": 1.5}, Reason.WRONG_TYPE, id="version-is-a-fraction"),
        pytest.param({"fence": -1}, Reason.WRONG_TYPE, id="negative-fence"),
        pytest.param({"maxDepth": None}, Reason.WRONG_TYPE, id="no-max-depth"),
        pytest.param({"issuedAt": 5}, Reason.WRONG_TYPE, id="issued-at-is-a-number"),
        pytest.param({"table": {}}, Reason.WRONG_TYPE, id="table-is-no-list"),
        pytest.param({"table": []}, Reason.WRONG_TYPE, id="no-rows"),
        pytest.param({"table": [3]}, Reason.WRONG_TYPE, id="row-is-no-object"),
        pytest.param({"table": [{"maxRequests": 4}]}, Reason.WRONG_TYPE, id="row-without-depth"),
        pytest.param({"table": [{"depth": 1, "maxRequest": 4}]}, Reason.WRONG_TYPE, id="misspelt-key"),
        pytest.param({"table": [{"depth": 1}, {"depth": 2}]}, Reason.UNSORTED, id="open-row-in-the-middle"),
        pytest.param({"table": [{"maxRequests": 4, "depth": 1}]}, Reason.UNSORTED, id="no-open-row"),
        pytest.param({"table": [{"maxRequests": 0, "depth": 1}, {"depth": 0}]}, Reason.UNSORTED, id="zero"),
        pytest.param(
            {"table": [{"maxRequests": 9, "depth": 1}, {"maxRequests": 9, "depth": 2}, {"depth": 0}]},
            Reason.UNSORTED,
            id="repeated-border",
        ),
        pytest.param({"table": [{"depth": 6}]}, Reason.DEPTH_OUT_OF_RANGE, id="above-the-file's-max"),
        pytest.param(
            {"maxDepth": 16, "table": [{"depth": 7}]}, Reason.DEPTH_OUT_OF_RANGE, id="above-the-engine's-max"
        ),
    ],
)
def test_a_file_that_breaks_the_contract_is_refused_with_its_reason(
    change: dict[str, Any], reason: Reason
) -> None:
    with pytest.raises(Refused) as refusal:
        parse(json.dumps(EXAMPLE | change), engine_max_depth=6)

    assert refusal.value.reason is reason


@pytest.mark.parametrize("text", ["", "{", "[" * 100_000, "{'format': 1}", "\x00"])
def test_what_is_not_json_is_refused(text: str) -> None:
    with pytest.raises(Refused) as refusal:
        parse(text, engine_max_depth=6)

    assert refusal.value.reason is Reason.NOT_JSON


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*EXAMPLE, "depth"]), inner),
)


@settings(deadline=None)
@given(st.dictionaries(st.sampled_from(list(EXAMPLE)), JSON))
def test_any_json_is_either_a_good_schedule_or_refused(change: dict[str, Any]) -> None:
    try:
        document = parse(json.dumps(EXAMPLE | change), engine_max_depth=5)
    except Refused:
        return

    assert document.table[-1].max_requests is None
    assert all(0 <= row.depth <= 5 for row in document.table)


@pytest.mark.parametrize(
    ("fence", "version", "expected"),
    [
        pytest.param(7, 13, None, id="next-version"),
        pytest.param(7, 12, Reason.OLD_VERSION, id="same-version"),
        pytest.param(7, 11, Reason.OLD_VERSION, id="older-version"),
        pytest.param(6, 99, Reason.LOWER_FENCE, id="former-leader"),
        pytest.param(8, 1, None, id="new-leader-begins-again"),
    ],
)
def test_a_schedule_follows_by_fence_first_and_version_second(
    fence: int, version: int, expected: Reason | None
) -> None:
    current = replace(flat(1, 5), fence=7, version=12)
    candidate = replace(flat(2, 5), fence=fence, version=version)

    try:
        check_succession(candidate, current)
    except Refused as refusal:
        assert refusal.reason is expected
    else:
        assert expected is None


TABLE = (Row(8, 5), Row(48, 2), Row(None, 0))


@pytest.mark.parametrize(("decoding", "depth"), [(1, 5), (8, 5), (9, 2), (48, 2), (49, 0), (500, 0)])
def test_a_row_covers_loads_up_to_and_including_its_border(decoding: int, depth: int) -> None:
    assert DepthChooser(TABLE).choose(decoding) == depth


@pytest.mark.fault("vllm#49548")
def test_a_load_that_dances_over_a_border_does_not_flip_the_depth() -> None:
    chooser = DepthChooser(TABLE)

    # Past 48 + 10 % once; after that never below 48 - 10 % = 43.2.
    depths = [chooser.choose(decoding) for decoding in (48, 53, 47, 49, 44, 50, 48, 52)]

    assert depths == [2, 0, 0, 0, 0, 0, 0, 0]


def test_inside_the_band_the_row_in_use_gives_way_after_sixteen_steps_on_end() -> None:
    chooser = DepthChooser(TABLE)
    chooser.choose(48)

    depths = [chooser.choose(49) for _ in range(17)]

    assert depths == [2] * 16 + [0]


def test_steps_that_are_not_on_end_do_not_add_up() -> None:
    chooser = DepthChooser(TABLE)
    chooser.choose(48)

    depths = {chooser.choose(decoding) for decoding in [*[49] * 15, 48] * 5}

    assert depths == {2}


def test_a_load_beyond_the_band_gets_its_row_at_once() -> None:
    chooser = DepthChooser(TABLE)
    chooser.choose(60)

    assert chooser.choose(43) == 2
    assert chooser.choose(1) == 5
    assert chooser.choose(500) == 0


@settings(deadline=None)
@given(st.lists(st.integers(1, 200)), st.integers(1, 200))
def test_a_load_that_comes_to_rest_gets_what_the_table_says(before: list[int], rest: int) -> None:
    chooser = DepthChooser(TABLE)
    for decoding in before:
        chooser.choose(decoding)

    for _ in range(STEPS_INSIDE_BAND + 1):
        chooser.choose(rest)

    assert chooser.depth == DepthChooser(TABLE).choose(rest)
