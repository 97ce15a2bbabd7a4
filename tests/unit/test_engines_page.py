"""docs/engines.md says what the adapters do, and what was seen of it."""

import sys
from pathlib import Path

import pytest
from dev import engines


def rows() -> dict[tuple[str, str], str]:
    """Give depth by engine with version, and method, as the page's table has them."""
    table = [
        line.split("|")[1:5] for line in engines.PAGE.read_text(encoding="utf-8").splitlines() if "|" in line
    ]
    cells = [[cell.strip() for cell in row] for row in table]
    return {(f"{engine} {version}".strip(), method): depth for engine, version, method, depth in cells}


def test_the_page_is_what_the_adapters_give(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["engines.py", "--check"])

    assert engines.main() == 0


@pytest.mark.parametrize(
    ("engine", "method", "depth"),
    [
        ("vllm 0.32.x", "eagle3", "live"),
        ("vllm 0.33.x", "ngram", "live"),
        ("vllm 0.32.x", "medusa", "fixed"),
        ("sglang 0.5.20 and later", "eagle", "rollout"),
        ("sglang 0.5.20 and later", "ngram", "fixed"),
        ("builtin", "medusa", "live"),
    ],
)
def test_each_pair_is_listed_with_how_its_depth_changes(engine: str, method: str, depth: str) -> None:
    assert rows()[engine, method] == depth


@pytest.mark.fault("kaito-project/kaito#2312")
def test_a_method_that_an_engine_gave_up_is_not_listed_for_the_version() -> None:
    assert ("vllm 0.32.x", "medusa") in rows()
    assert ("vllm 0.33.x", "medusa") not in rows()


def test_tests_that_run_an_engine_are_found_by_their_mark(tmp_path: Path) -> None:
    (tmp_path / "test_x.py").write_text(
        '@pytest.mark.serves("vllm 0.32", "ngram", "eagle")\ndef test(): ...\n'
    )

    assert set(engines.real_runs(tmp_path)) == {("vllm 0.32", "ngram"), ("vllm 0.32", "eagle")}
