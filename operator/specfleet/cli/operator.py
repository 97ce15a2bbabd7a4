"""`specfleet operator`: run the operator of a cluster."""

from pathlib import Path
from typing import Annotated

import typer
import yaml
from pydantic import ValidationError

from specfleet.api.configuration import Configuration


def operator(
    config: Annotated[Path, typer.Option(help="The operator's configuration, a YAML file.")] = Path(
        "/etc/specfleet/config.yaml"
    ),
    kubeconfig: Annotated[
        Path | None, typer.Option(envvar="KUBECONFIG", help="Cluster to log in to, when not run in a pod.")
    ] = None,
    namespace: Annotated[
        str | None, typer.Option(help="Where the lease lies. Default: the pod's own namespace.")
    ] = None,
) -> None:
    """Run the operator until SIGTERM. Exits with 1 on a configuration or CRD that it cannot work with."""
    configuration = _configuration(config)
    # kopf takes a second and 90 MiB to import, which no other command should pay.
    from specfleet.controller.serve import serve  # noqa: PLC0415

    raise typer.Exit(serve(configuration, kubeconfig=kubeconfig, namespace=namespace))


def _configuration(path: Path) -> Configuration:
    try:
        return Configuration.model_validate(yaml.safe_load(path.read_text()))
    except OSError as error:
        typer.echo(f"{path}: cannot be read: {error.strerror}; give the file with --config", err=True)
    except yaml.YAMLError as error:
        typer.echo(f"{path}: is not YAML: {error}", err=True)
    except ValidationError as error:
        for problem in error.errors(include_input=False, include_url=False):
            where = ".".join(map(str, problem["loc"])) or "the file"
            typer.echo(f"{path}: {where}: {problem['msg']}", err=True)
    raise typer.Exit(1)
