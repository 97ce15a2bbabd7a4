"""`specfleet validate`: checks resources in a file without a cluster, by the same rules as the API server."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from specfleet.api.resource import GROUP, KIND, VERSION
from specfleet.api.validation import InvalidResource, Problem
from specfleet.api.validation import validate as read


def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML or JSON file, or - for stdin.")],
) -> None:
    """Check every resource in a file; exit 1 if one is wrong. Objects of other kinds are left alone."""
    try:
        documents = list(
            yaml.safe_load_all(sys.stdin if file == "-" else Path(file).read_text(encoding="utf-8"))
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        typer.echo(f"{file}: cannot be read as YAML: {error}", err=True)
        raise typer.Exit(1) from error
    checked = failed = 0
    for document in _objects(documents):
        if not isinstance(document, dict) or document.get("kind") != KIND:
            continue
        checked += 1
        metadata = document.get("metadata")
        name = metadata.get("name") if isinstance(metadata, dict) else None
        problems = _problems(document)
        failed += bool(problems)
        for problem in problems:
            typer.echo(f"{file}: {name or 'a resource without a name'}: {problem}", err=True)
    if not checked:
        typer.echo(f"{file}: holds no {KIND}", err=True)
    if failed or not checked:
        raise typer.Exit(1)
    typer.echo(f"{file}: {checked} valid")


def _objects(documents: list[Any]) -> Iterator[Any]:
    for document in documents:
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from document.get("items") or ()
        else:
            yield document


def _problems(document: dict[str, Any]) -> tuple[Problem, ...]:
    found: list[Problem] = []
    if document.get("apiVersion") != f"{GROUP}/{VERSION}":
        found.append(Problem("apiVersion", f"must be {GROUP}/{VERSION}"))
    unknown = sorted(set(document) - {"apiVersion", "kind", "metadata", "spec", "status"})
    found.extend(Problem(str(field), "unknown field: check its spelling and place") for field in unknown)
    try:
        read(document)
    except InvalidResource as error:
        found.extend(error.problems)
    return tuple(found)
