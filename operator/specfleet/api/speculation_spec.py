"""What drafts tokens, and how many at most."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, model_validator

from specfleet.api.fields import NOT_STORED, Depth, ObjectName, Written
from specfleet.api.model_spec import Revision, hub_only_rules
from specfleet.api.model_uri import LONGEST_URI, SCHEMES, served_uri
from specfleet.api.rules import Rule, Rules

# What drafts with weights of its own.
MODEL_METHODS = ("draftModel", "eagle", "eagle3", "medusa")


class DepthSpec(Written):
    """Bounds of the speculative depth, in drafted tokens per verification step; 0 <= initial <= max <= 16."""

    initial: Depth = 2
    """Depth that pods start with, until the tuner knows better. Default: 2. Changing it rolls the pods."""
    max: Depth = 5
    """Largest depth that may ever be used; it sizes buffers of the engine. Default: 5. Changing it rolls the
    pods and starts a new baseline."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "depth.initial (default 2) must not exceed depth.max (default 5): lower initial or raise max",
            "self.initial <= self.max",
            lambda own: own.initial <= own.max,
            field="initial",
        ),
    )


class NgramSpec(Written):
    """How the n-gram proposer looks up: the longest match of the last tokens earlier in the sequence wins."""

    min_match: Annotated[int, Field(ge=1, le=32)] = 2
    """Shortest match in tokens. Default: 2. Changing it rolls the pods and starts a new baseline."""
    max_match: Annotated[int, Field(ge=1, le=32)] = 5
    """Longest match in tokens. Default: 5. Changing it rolls the pods and starts a new baseline."""

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "ngram.minMatch (default 2) must not exceed ngram.maxMatch (default 5): lower minMatch "
            "or raise maxMatch",
            "self.minMatch <= self.maxMatch",
            lambda own: own.min_match <= own.max_match,
            field="minMatch",
        ),
    )


class ProposerSpec(Written):
    """The weights that draft: a small model, or a head that was trained for the served model."""

    uri: Annotated[str, Field(max_length=LONGEST_URI), Rules(served_uri("proposer.uri"))]
    """Where its files are, by the same schemes as model.uri; the model's own claim may be named again.
    Changing it rolls the pods and starts a new baseline."""
    revision: Revision = ""
    """Commit, tag or branch of a repository with hf://; with tuning.mode Enforce or a model.cacheClaim a
    commit (7 to 40 digits). Default: main. Changing it rolls the pods and starts a new baseline."""
    credentials_secret: ObjectName | None = None
    """Secret of this namespace whose key token opens a private or gated repository with hf://. Default:
    model.credentialsSecret. Changing it rolls the pods."""

    rules: ClassVar[tuple[Rule, ...]] = hub_only_rules("proposer")


class SpeculationSpec(Written):
    """What drafts tokens, and how many."""

    method: Literal["draftModel", "eagle", "eagle3", "medusa", "mtp", "ngram", "suffix", "none"]
    """draftModel drafts with a small model of the same tokenizer; eagle, eagle3 and medusa with a head that
    was trained for the served model (all four need proposer); mtp with layers that the served model brings;
    ngram by looking back in the sequence, suffix also in other requests; none serves without a proposer. Each
    engine and version has some of them. Changing it rolls the pods and starts a new baseline."""
    proposer: ProposerSpec | None = None
    """The weights that draft; required with methods draftModel, eagle, eagle3 and medusa, and only there."""
    depth: DepthSpec = Field(default=DepthSpec(), json_schema_extra=NOT_STORED)
    """Bounds of the speculative depth. Default: initial 2, max 5; with method none 0 and 0."""
    ngram: NgramSpec | None = None
    """Settings of the n-gram proposer; only with method ngram. Default: its own defaults."""

    @model_validator(mode="before")
    @classmethod
    def _no_depth_without_a_proposer(cls, written: Any) -> Any:
        # So that whoever reads depth needs no special case for method none.
        if isinstance(written, dict) and written.get("method") == "none" and "depth" not in written:
            return written | {"depth": {"initial": 0, "max": 0}}
        return written

    rules: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"speculation.proposer is required with the methods {', '.join(MODEL_METHODS)}: write its uri, "
            f"as {SCHEMES}",
            f"!(self.method in {list(MODEL_METHODS)}) || has(self.proposer)",
            lambda own: own.method not in MODEL_METHODS or own.proposer is not None,
            field="proposer",
        ),
        Rule(
            f"speculation.proposer is only for the methods {', '.join(MODEL_METHODS)}: drop the block, or "
            "change the method",
            f"self.method in {list(MODEL_METHODS)} || !has(self.proposer)",
            lambda own: own.method in MODEL_METHODS or own.proposer is None,
            field="proposer",
        ),
        Rule(
            "speculation.ngram is only for method ngram: drop the block, or change the method",
            "self.method == 'ngram' || !has(self.ngram)",
            lambda own: own.method == "ngram" or own.ngram is None,
            field="ngram",
        ),
        Rule(
            "method none never drafts: drop speculation.depth, or choose a method",
            "self.method != 'none' || !has(self.depth) || self.depth.max == 0",
            lambda own: own.method != "none" or own.depth.max == 0,
            field="depth",
        ),
        Rule(
            "depth.max must be at least 1 with this method; to serve without speculation write method: none",
            "self.method == 'none' || !has(self.depth) || self.depth.max >= 1",
            lambda own: own.method == "none" or own.depth.max >= 1,
            field="depth",
        ),
    )
