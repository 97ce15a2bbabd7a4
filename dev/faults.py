"""Write docs/faults.md: each public fault of dev/faults.toml, and the tests that guard against it.

    python -m dev.faults [--check]

A test says so with ``@pytest.mark.fault("vllm#7627")``, which names one or more references of a row.
``--check`` changes nothing and fails if the page is not what it would be. Both fail if a marker names what no
row has, or if nothing guards against a reference.
"""

import ast
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from dev.pages import asked_to_check, write_or_check

REPOSITORY = Path(__file__).resolve().parent.parent
SOURCE = REPOSITORY / "dev" / "faults.toml"
PAGE = REPOSITORY / "docs" / "faults.md"
MARKER = "pytest.mark.fault"
MOST_REFUSALS = 5

HEADER = """# Faults of other engines, and the tests that guard against them

Written by `python -m dev.faults` from `dev/faults.toml` and from the `fault` markers in tests; do not edit.
Short names: vllm = vllm-project/vllm, sglang = sgl-project/sglang, TRT-LLM = NVIDIA/TensorRT-LLM, llama.cpp =
ggml-org/llama.cpp, transformers = huggingface/transformers, mlx-lm, mlx-swift-lm = ml-explore.
"""


@dataclass(frozen=True, slots=True)
class Fault:
    """A row: what went wrong elsewhere, and what is right.

    ``references`` are the reports that tests must name, each of them. ``same``: further reports of the same
    symptom, for which those tests stand too. ``refused``: why a refusal stands in for it. ``later``: what of
    the right behaviour is not built, and what it waits for; such a row may be without a test.
    """

    area: str
    references: Sequence[str]
    symptom: str
    behaviour: str
    same: Sequence[str] = ()
    refused: str | None = None
    later: str | None = None


def main() -> int:
    """Write or check the page; gives the exit status."""
    check = asked_to_check("Write docs/faults.md from the fault markers in tests.")
    faults = [Fault(**row) for row in tomllib.loads(SOURCE.read_text(encoding="utf-8"))["fault"]]
    tests = marked_tests(REPOSITORY / "tests")
    if problem := problem_in(faults, tests):
        print(f"faults: {problem}", file=sys.stderr)
        return 1
    page = render(faults, tests)
    return write_or_check(PAGE, page, "python -m dev.faults", check=check)


def marked_tests(folder: Path) -> Mapping[str, Sequence[str]]:
    """Answer the tests that name each reference, as ``file::test``, in the order of the files."""
    found: dict[str, list[str]] = {}
    for path in sorted(folder.rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                for reference in _references(node):
                    name = f"{path.relative_to(folder.parent)}::{node.name}"
                    found.setdefault(reference, []).append(name)
    return found


def problem_in(faults: Sequence[Fault], tests: Mapping[str, Sequence[str]]) -> str | None:
    """Answer what is wrong with the table or the markers; None: nothing."""
    known = {reference for fault in faults for reference in (*fault.references, *fault.same)}
    if unknown := sorted(set(tests) - known):
        return f"{tests[unknown[0]][0]} names {unknown[0]}, which no row of dev/faults.toml has"
    for fault in faults:
        untested = [reference for reference in fault.references if reference not in tests]
        if untested and not fault.refused and not (fault.later and len(untested) == len(fault.references)):
            return f"no test names {' or '.join(untested)}, and it is no refusal"
    refused = [fault for fault in faults if fault.refused]
    if len(refused) > MOST_REFUSALS:
        return f"{len(refused)} rows are refusals, at most {MOST_REFUSALS} may be"
    return None


def render(faults: Sequence[Fault], tests: Mapping[str, Sequence[str]]) -> str:
    """Write the page, one table for each area."""
    lines = [HEADER]
    for area, rows in groupby(faults, key=lambda fault: fault.area):
        lines += [
            f"## {area}",
            "",
            "| fault | symptom elsewhere | right behaviour | test |",
            "|---|---|---|---|",
        ]
        lines += [_row(fault, tests) for fault in rows]
        lines.append("")
    return "\n".join(lines)


def _references(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[str]:
    for decorator in function.decorator_list:
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == MARKER:
            yield from (ast.literal_eval(argument) for argument in decorator.args)


def _row(fault: Fault, tests: Mapping[str, Sequence[str]]) -> str:
    reports = (*fault.references, *fault.same)
    guards = dict.fromkeys(test for one in reports for test in tests.get(one, ()))
    shown = [f"`{test.removeprefix('tests/')}`" for test in guards]
    if fault.refused:
        shown.insert(0, f"Refused: {fault.refused}")
    if fault.later:
        shown.append(f"Not built: {fault.later}")
    cells = (", ".join(reports), fault.symptom, fault.behaviour, "<br>".join(shown))
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
