"""One verdict over a pair: everything that is wrong with it at once, so that one edit puts it right."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specfleet_preflight.checkpoint import Checkpoint, open_checkpoint
from specfleet_preflight.draft_model import draft_model_faults
from specfleet_preflight.eagle import eagle_faults
from specfleet_preflight.eagle3 import eagle3_faults, eagle3_notes
from specfleet_preflight.engines import method_faults
from specfleet_preflight.errors import Unreadable
from specfleet_preflight.formats import format_faults, format_of
from specfleet_preflight.medusa import medusa_faults
from specfleet_preflight.memory import plan_memory
from specfleet_preflight.start import Start
from specfleet_preflight.target import Target, model_faults, read_target
from specfleet_preflight.tokenizer import read_vocabulary

__all__ = ["Verdict", "check"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is wrong with the model alone, and with the proposer beside it; and what both will hold.

    ``notes`` are no faults, but worth knowing if few drafts are accepted.
    """

    model: tuple[str, ...] = ()
    proposer: tuple[str, ...] = ()
    plan: str = ""
    notes: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        return not self.model and not self.proposer

    def __str__(self) -> str:
        """One line. By its first word the operator tells whose fault it is; the model's comes first."""
        if self.model:
            return f"model: {'; '.join(self.model)}"
        if self.proposer:
            return f"proposer: {'; '.join(self.proposer)}"
        return f"fits: {'; '.join((self.plan, *self.notes))}"


def check(model: Path, proposer: Path, start: Start) -> Verdict:
    """Compare the folders of a pair for one start."""
    try:
        checkpoint = open_checkpoint(model, pickles=False)
        target = read_target(checkpoint, read_vocabulary(model))
    except Unreadable as error:
        return Verdict(model=(str(error),))
    faults = tuple(model_faults(target, start))
    try:
        folder = open_checkpoint(proposer, pickles=True)
        found = tuple(_pair_faults(folder, target, start))
        if found or faults:
            return Verdict(faults, found)
        plan = plan_memory(target, folder, start)
    except Unreadable as error:
        return Verdict(faults, (str(error),))
    notes = eagle3_notes(folder, target) if start.method == "eagle3" else ()
    return Verdict(tuple(plan.model_faults()), tuple(plan.proposer_faults()), str(plan), tuple(notes))


def _pair_faults(folder: Checkpoint, target: Target, start: Start) -> Iterator[str]:
    method = list(method_faults(start))
    wrong_form = list(format_faults(folder, start.method))
    if method or wrong_form:
        yield from (*method, *wrong_form)
        return
    form = format_of(folder)
    match start.method:
        case "draftModel":
            yield from draft_model_faults(folder, target, start)
        case "eagle":
            yield from eagle_faults(folder, target, start)
        case "eagle3" if form is not None:
            yield from eagle3_faults(folder, form, target, start)
        case "medusa" if form is not None:
            yield from medusa_faults(folder, form, target, start)
