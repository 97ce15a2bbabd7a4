"""`specfleet`: the commands. Each module of this package brings its own and is registered here."""

import typer

from specfleet.cli import crds, operator, simulate, validate

app = typer.Typer(
    name="specfleet",
    help="Fleets of LLM pods that decode speculatively.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
app.command("operator")(operator.operator)
app.command("crds")(crds.crds)
app.command("validate")(validate.validate)
app.command("simulate")(simulate.simulate)
