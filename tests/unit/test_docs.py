"""What the documentation says can be done: its resources, links, commands and reasons exist."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from specfleet.api.validation import validate

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    *sorted(REPOSITORY.glob("dev/*/README.md")),
]
BLOCK = re.compile(r"^```(?P<kind>\w*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\((?P<target>[^)#\s]+)(#[^)]*)?\)")
MAKE = re.compile(r"(?:^|`)make ([a-z0-9-]+)", re.MULTILINE)
FILE = re.compile(r"(?<![\w.])((?:examples|charts|dev|docs|tests)/[\w./-]*\w)")


def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path) -> Iterator[str]:
    return (found["text"] for found in BLOCK.finditer(read(page)) if found["kind"] == "yaml")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_a_resource_that_is_shown_is_one_that_is_accepted(page: Path) -> None:
    for text in blocks(page):
        document = yaml.safe_load(text)
        if isinstance(document, dict) and document.get("kind") == "SpeculativeDeployment":
            assert validate(document).name


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_file_that_is_named_or_linked_is_there(page: Path) -> None:
    links = [
        page.parent / found["target"] for found in LINK.finditer(read(page)) if "://" not in found["target"]
    ]
    named = [REPOSITORY / name for name in FILE.findall(read(page))]

    assert [str(path) for path in (*links, *named) if not path.exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_every_make_target_that_is_named_is_one(page: Path) -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", read(REPOSITORY / "Makefile"), re.MULTILINE))

    assert set(MAKE.findall(read(page))) - targets == set()


def test_every_page_is_reached_from_the_readme_or_another_page() -> None:
    reached = {
        (page.parent / found["target"]).resolve()
        for page in PAGES
        for found in LINK.finditer(read(page))
        if "://" not in found["target"]
    }

    assert [page.name for page in PAGES if page.parent.name == "docs" and page not in reached] == []


def test_every_reason_to_be_degraded_that_planning_gives_is_explained() -> None:
    sources = "".join(read(path) for path in (REPOSITORY / "operator/specfleet/planning").glob("*.py"))
    # A refusal's or failure's reason is a constant, or stands first in its call.
    reasons = set(re.findall(r'^[A-Z_]+ = "([A-Z][a-z]+[A-Z][A-Za-z]+)"$', sources, re.MULTILINE))
    reasons |= set(re.findall(r'yield "([A-Z]\w+)"', sources))
    explained = read(REPOSITORY / "docs/when-it-says-no.md") + read(REPOSITORY / "docs/reading-status.md")

    assert {"NameConflict", "EngineFailed", "RolloutStuck"} <= reasons
    assert {reason for reason in reasons if reason not in explained} == set()


@pytest.mark.fault("ai-dynamo/dynamo#14085")
def test_every_alert_has_a_section_in_the_runbook() -> None:
    alerts = re.findall(r"- alert: (\w+)", read(REPOSITORY / "charts/specfleet/templates/monitoring.yaml"))
    sections = re.findall(r"^## (\w+)$", read(REPOSITORY / "docs/runbook.md"), re.MULTILINE)

    assert alerts
    assert set(alerts) <= set(sections)


def test_no_two_decisions_have_one_number() -> None:
    numbers = re.findall(r"^## (\d+)\.", read(REPOSITORY / "docs/decisions.md"), re.MULTILINE)

    assert len(set(numbers)) == len(numbers)
