"""A body is refused in words, however it is written."""

import pytest

from specfleet_serving.errors import InvalidRequest
from specfleet_serving.reading import read_completion


def test_a_body_of_any_depth_is_refused() -> None:
    # Some depths can be read and not be written again: which ones, depends on the frames above.
    for depth in range(700, 1000):
        with pytest.raises(InvalidRequest, match=r"surrogate|JSON|deep"):
            read_completion(b'{"model":"m","user":' + b"[" * depth + b'"\\ud800"' + b"]" * depth + b"}")
