"""`specfleet validate`: checks a file without a cluster.

Resources by the same rules as the API server; a file of published measurements by predicting each of its rows
from the others with the tuner's cost model.
"""

import json
import sys
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from specfleet.api.resource import GROUP, KIND, VERSION
from specfleet.api.validation import InvalidResource, Problem
from specfleet.api.validation import validate as read
from specfleet.published import BadMeasurements, figures, grids, predictions


def validate(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A YAML or JSON file, or - for stdin.")],
    report: Annotated[
        Path | None, typer.Option("--json", metavar="OUT", help="Write figures and predictions there.")
    ] = None,
) -> None:
    """Check every resource in a file; exit 1 if one is wrong. Objects of other kinds are left alone.

    A file of published measurements (schemaVersion, sets) is predicted instead, row by row.
    """
    try:
        documents = list(
            yaml.safe_load_all(sys.stdin if file == "-" else Path(file).read_text(encoding="utf-8"))
        )
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        typer.echo(f"{file}: cannot be read as YAML: {error}", err=True)
        raise typer.Exit(1) from error
    if report is not None and not report.parent.is_dir():
        typer.echo(f"--json {report}: its folder does not exist", err=True)
        raise typer.Exit(1)
    if len(documents) == 1 and isinstance(documents[0], dict) and "schemaVersion" in documents[0]:
        _measurements(file, documents[0], report)
        return
    if report is not None:
        typer.echo("--json belongs to a file of published measurements", err=True)
        raise typer.Exit(1)
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


def _measurements(file: str, document: dict[str, Any], report: Path | None) -> None:
    """Print each prediction beside the published value, then the figures. A missed target is no failure."""
    try:
        found, unused = grids(document)
    except BadMeasurements as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(1) from error
    predicted = [one for grid in found for one in predictions(grid)]
    if not predicted:
        typer.echo(
            f"{file}: holds no set with two loads, each with speculation off and a fixed depth", err=True
        )
        raise typer.Exit(1)
    for one in predicted:
        pairs = ", ".join(
            f"depth {depth} {one.predicted[depth]:.2f} ({published:.2f})"
            for depth, published in sorted(one.published.items())
            if depth > 0
        )
        context = f", context {one.row[1]:g}" if one.row[1] else ""
        typer.echo(
            f"{one.grid}, load {one.row[0]:g}{context}: speed-up predicted (published) {pairs}; "
            f"best depth {one.predicted_depth} ({one.published_depth})"
        )
    for part in unused:
        typer.echo(f"{part.name}: not used: {part.reason}")
    judged = figures(predicted)
    for figure in judged:
        met = "met" if figure["met"] else "missed"
        typer.echo(f"{figure['name']}: {figure['value']:.3f}, target {figure['target']}: {met}")
    if report is not None:
        body = {"figures": judged, "predictions": [asdict(one) for one in predicted]}
        report.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")


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
