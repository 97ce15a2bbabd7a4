"""`specfleet crds`: the CRD as generated from the models of this version."""

from pathlib import Path
from typing import Annotated

import typer

from specfleet.api.crd import FILE_NAME, crd_yaml


def crds(
    write: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help=f"Write {FILE_NAME} into this folder.")
    ] = None,
    check: Annotated[
        Path | None,
        typer.Option(metavar="FOLDER", help=f"Fail unless {FILE_NAME} in this folder is up to date."),
    ] = None,
) -> None:
    """Print the CustomResourceDefinition, or write or check the file that users apply."""
    text = crd_yaml()
    if write is not None:
        (write / FILE_NAME).write_text(text, encoding="utf-8")
    if check is not None:
        file = check / FILE_NAME
        if not file.is_file() or file.read_text(encoding="utf-8") != text:
            typer.echo(f"{file} differs from the models: run `specfleet crds --write {check}`", err=True)
            raise typer.Exit(1)
    if write is None and check is None:
        typer.echo(text, nl=False)
