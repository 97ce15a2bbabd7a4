"""One rendering per set of values, shared by the tests: helm takes a second to start."""

import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from rendering import Rendered, render
from value_sets import VALUE_SETS


@pytest.fixture(scope="session")
def chart(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Rendered]:
    """Render one of the named sets of values."""

    @cache
    def rendered(name: str) -> Rendered:
        return render(VALUE_SETS[name], tmp_path_factory.mktemp(name))

    return rendered


@pytest.fixture(params=sorted(VALUE_SETS))
def rendered(request: pytest.FixtureRequest, chart: Callable[[str], Rendered]) -> Rendered:
    """Each set of values in turn."""
    return chart(request.param)
