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
    tests = {one: ["tests/test_a.py::test_one"] for one in ("vllm#1", "vllm#2")}
    assert problem_in(FAULTS, tests) is None

    problem = problem_in(FAULTS, {"vllm#9": ["tests/test_a.py::test_one"]})

    assert problem == "tests/test_a.py::test_one names vllm#9, which no row of dev/faults.toml has"


def test_a_row_without_test_and_refusal_is_a_mistake() -> None:
    assert problem_in(FAULTS, {}) == "no test names vllm#1 or vllm#2, and it is no refusal"


def test_each_reference_needs_a_test_but_for_further_reports_of_the_same_symptom() -> None:
    tests = {"vllm#1": ["tests/test_a.py::test_one"]}
    both = Fault("Length", ("vllm#1", "vllm#2"), "too long", "as long as asked for")
    same = Fault("Length", ("vllm#1",), "too long", "as long as asked for", same=("vllm#2",))

    assert problem_in([both], tests) == "no test names vllm#2, and it is no refusal"
    assert problem_in([same], tests) is None
    assert "| vllm#1, vllm#2 | too long |" in render([same], tests)


def test_what_is_not_built_is_said_beside_the_tests_of_what_is() -> None:
    tests = {"vllm#1": ["tests/test_a.py::test_one"]}
    half = Fault("Length", ("vllm#1",), "too long", "as asked for", later="the rest of it")
    none = Fault("Length", ("vllm#3",), "too long", "as asked for", later="all of it")

    assert problem_in([half, none], tests) is None
    assert "| `test_a.py::test_one`<br>Not built: the rest of it |" in render([half], tests)
    assert problem_in([Fault("Length", ("vllm#1", "vllm#3"), "", "", later="a part")], tests) is not None


def test_at_most_five_rows_may_be_refusals() -> None:
    assert problem_in([FAULTS[1]] * 5, {}) is None
    assert problem_in([FAULTS[1]] * 6, {}) == "6 rows are refusals, at most 5 may be"
