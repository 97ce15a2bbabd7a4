"""`specfleet simulate`: what specfleet would do with a model, a GPU and a traffic, and what that is worth."""

from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import ValidationError

_PICTURES = (".png", ".svg")


def simulate(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A YAML: see docs/simulator.md.")],
    picture: Annotated[Path | None, typer.Option(help="Write load, depth and queue as PNG or SVG.")] = None,
) -> None:
    """Simulate a pool under specfleet, without speculation, at one depth, and under perfect knowledge."""
    if picture is not None and (wrong := _unwritable(picture)) is not None:
        typer.echo(f"--picture {picture}: {wrong}", err=True)
        raise typer.Exit(1)
    try:
        # Not at the top: the operator's image has neither the compiler nor the means to draw.
        from specfleet.cli.comparison import compare  # noqa: PLC0415
    except ModuleNotFoundError as error:
        typer.echo(f"{error.name} is missing: pip install '.[simulator]' in a checkout", err=True)
        raise typer.Exit(1) from error
    try:
        body = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        typer.echo(f"{file}: cannot be read as YAML: {error}", err=True)
        raise typer.Exit(1) from error
    try:
        compare(body, picture, lambda text: typer.echo(text, err=True))
    except OSError as error:
        typer.echo(f"--picture {picture}: {error.strerror}", err=True)
        raise typer.Exit(1) from error
    except ValidationError as error:
        for problem in error.errors():
            where = ".".join(map(str, problem["loc"])) or "the file"
            typer.echo(f"{file}: {where}: {problem['msg']}", err=True)
        raise typer.Exit(1) from error
    except ValueError as error:
        typer.echo(f"{file}: {error}", err=True)
        raise typer.Exit(1) from error


def _unwritable(picture: Path) -> str | None:
    """Say what is wrong with the place of a picture, before the run that would be lost."""
    if picture.suffix.lower() not in _PICTURES:
        return f"must end in {' or '.join(_PICTURES)}"
    return None if picture.parent.is_dir() else "its folder does not exist"
