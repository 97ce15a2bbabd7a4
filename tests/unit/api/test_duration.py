"""Go durations as seconds."""

import pytest

from specfleet.api.duration import seconds


@pytest.mark.parametrize(
    ("text", "expected"), [("40ms", 0.04), ("1.5s", 1.5), ("250us", 0.00025), ("1m30s", 90.0), ("0ms", 0.0)]
)
def test_a_duration_is_read_as_seconds(text: str, expected: float) -> None:
    assert seconds(text) == pytest.approx(expected)


@pytest.mark.parametrize("text", ["", "40", "40 ms", "-1s", "1h", "PT30S", "40ms\n", "1.s", ".5s"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Go duration"):
        seconds(text)
