"""Pages of docs/ that are written from code: write one, or check that it is what it would be."""

import argparse
import sys
from pathlib import Path


def asked_to_check(purpose: str) -> bool:
    """Read the command line of a page's writer: ``--check`` changes nothing."""
    parser = argparse.ArgumentParser(description=purpose)
    parser.add_argument("--check", action="store_true", help="only say whether the page is up to date")
    return bool(parser.parse_args().check)


def write_or_check(page: Path, text: str, command: str, *, check: bool) -> int:
    """Give the exit status: 1 where ``check`` finds that the page is not ``text``; ``command`` renews it."""
    if not check:
        page.write_text(text, encoding="utf-8")
        return 0
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        print(f"docs/{page.name} is not up to date; run {command}", file=sys.stderr)
        return 1
    return 0
