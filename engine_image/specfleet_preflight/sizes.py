"""What every proposer is compared by: widths, vocabularies, positions, and who it was made for."""

from collections.abc import Iterator

from specfleet_preflight.checkpoint import Checkpoint
from specfleet_preflight.engines import beyond_positions
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target, positions

__all__ = ["position_faults", "same_width", "verifier_faults", "vocabulary_faults"]

_ANOTHER = "name a proposer that was made for this model"


def same_width(what: str, theirs: int, ours: int) -> Iterator[str]:
    """Compare one size that must be equal."""
    if theirs != ours:
        yield f"its {what} is {theirs}, the model's {ours}: {_ANOTHER}"


def vocabulary_faults(theirs: int, target: Target) -> Iterator[str]:
    """Compare sizes of tables; rows beyond the tokenizer's last id only pad them and may differ."""
    if theirs != target.vocabulary and min(theirs, target.vocabulary) < target.used_ids:
        yield from same_width("vocabulary", theirs, target.vocabulary)


def verifier_faults(folder: Checkpoint, target: Target) -> Iterator[str]:
    """Compare the architecture that a speculators head says it was trained for. Its path proves nothing."""
    said = folder.config.get("speculators_config")
    verifier = said.get("verifier") if isinstance(said, dict) else None
    made_for = verifier.get("architectures") if isinstance(verifier, dict) else None
    ours = target.checkpoint.architecture
    if isinstance(made_for, list) and made_for and ours not in made_for:
        yield f"it was made for a {made_for[0]}, and the model is a {ours}: {_ANOTHER}"


def position_faults(folder: Checkpoint, start: Start) -> Iterator[str]:
    """Compare how far the proposer reaches with the longest sequence."""
    longest, beyond = positions(folder.text.config), beyond_positions(start)
    if longest is None or longest >= start.max_model_len or beyond is None:
        return
    reason, cure = beyond
    yield (
        f"it reaches {longest} positions and engine.maxModelLen is {start.max_model_len}; {reason}: lower "
        f"engine.maxModelLen to {longest}, or {cure}"
    )
