"""The table of other engines' faults: what the page shows, and which mistakes are found."""

from pathlib import Path

from dev.faults import Fault, marked_tests, problem_in, render

FAULTS = [
    Fault("Length", ("vllm#1", "vllm#2"), "too long", "as long as asked for"),
    Fault("Length", ("sglang#3",), "a crash", "an error", refused="not a part of this engine"),
]
TESTS = """
@pytest.mark.fault("vllm#2", "sglang#3")
@pytest.mark.parametrize("a", [1])
async def test_one(a): ...

def test_other(): ...
"""


def test_a_test_is_found_by_each_reference_that_it_names(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_a.py").write_text(TESTS)

    assert marked_tests(folder) == {
        "vllm#2": ["tests/test_a.py::test_one"],
        "sglang#3": ["tests/test_a.py::test_one"],
    }


def test_a_row_shows_its_tests_or_its_refusal() -> None:
    page = render(FAULTS, {"vllm#2": ["tests/test_a.py::test_one"]})

    assert "| vllm#1, vllm#2 | too long | as long as asked for | `test_a.py::test_one` |" in page
    assert "| Refused: not a part of this engine |" in page


def test_a_marker_for_an_unknown_fault_is_a_mistake() -> None:
    assert problem_in(FAULTS, {"vllm#1": ["tests/test_a.py::test_one"]}) is None

    problem = problem_in(FAULTS, {"vllm#9": ["tests/test_a.py::test_one"]})

    assert problem == "tests/test_a.py::test_one names vllm#9, which no row of dev/faults.toml has"


def test_a_row_without_test_and_refusal_is_a_mistake() -> None:
    assert problem_in(FAULTS, {}) == "no test names vllm#1 or vllm#2, and it is no refusal"


def test_at_most_five_rows_may_be_refusals() -> None:
    assert problem_in([FAULTS[1]] * 5, {}) is None
    assert problem_in([FAULTS[1]] * 6, {}) == "6 rows are refusals, at most 5 may be"
