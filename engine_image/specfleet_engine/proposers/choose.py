"""From a method and a folder to a proposer that fits the target, or to one sentence that says why not."""

from pathlib import Path

from specfleet_engine.errors import ModelRefused, ProposerRefused
from specfleet_engine.forward import TargetModel
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers.chain import ChainProposer
from specfleet_engine.proposers.eagle import read_eagle
from specfleet_engine.proposers.eagle3_folder import read_eagle3
from specfleet_engine.proposers.folder import open_folder
from specfleet_engine.proposers.formats import expect_format
from specfleet_engine.proposers.medusa import MedusaProposer, read_medusa
from specfleet_engine.proposers.networks import EagleNetwork, ModelNetwork
from specfleet_engine.tokenizer import EngineTokenizer

__all__ = ["METHODS", "load_proposer", "read_heads"]

# Those that need a folder; n-gram look-up needs none.
METHODS = ("draftModel", "eagle", "eagle3", "medusa")


def load_proposer(
    method: str, path: Path, target: TargetModel, tokenizer: EngineTokenizer, *, allow_pickle: bool = False
) -> ChainProposer | MedusaProposer:
    """Read the proposer in ``path`` for one of `METHODS`. Raises ProposerRefused.

    ``tokenizer`` is the target's. Heads are checked by their sizes, a draft model by its tokenizer.
    """
    if method == "draftModel":
        return ChainProposer(_read_model(path, target, tokenizer))
    return read_heads(method, path, target, allow_pickle=allow_pickle)


def read_heads(
    method: str, path: Path, target: TargetModel, *, allow_pickle: bool = False
) -> ChainProposer | MedusaProposer:
    """Read what drafts over the target's own states: eagle, eagle3 or medusa. Raises ProposerRefused."""
    folder = open_folder(path, allow_pickle=allow_pickle)
    form = expect_format(folder, method)
    if method == "medusa":
        return read_medusa(folder, form, target)
    head = read_eagle(folder, target) if method == "eagle" else read_eagle3(folder, form, target)
    return ChainProposer(EagleNetwork(method, head, target))


def _read_model(path: Path, target: TargetModel, tokenizer: EngineTokenizer) -> ModelNetwork:
    try:
        model = load_model(path, target.dtype, device=target.device)
        theirs = load_tokenizer(path, model)
    except ModelRefused as error:
        raise ProposerRefused(f"the draft model cannot be used: {error}") from error
    if difference := _first_difference(tokenizer.vocabulary, theirs.vocabulary):
        raise ProposerRefused(
            f"the draft model in {path} does not have the model's tokenizer, so that its tokens would mean "
            f"something else: {difference}"
        )
    return ModelNetwork(model, target.vocabulary_size)


def _first_difference(ours: dict[str, int], theirs: dict[str, int]) -> str | None:
    """Compare what the ids mean, not how many rows the tables have: those are padded differently."""
    different = [token for token in ours.keys() | theirs.keys() if ours.get(token) != theirs.get(token)]
    if not different:
        return None
    token = min(different, key=lambda token: (ours.get(token, len(ours)), token))
    mine, other = ours.get(token, "unknown"), theirs.get(token, "unknown")
    return f"the token {token!r} is {mine} in the model and {other} in the draft model"
