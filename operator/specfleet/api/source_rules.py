"""Rules about sources of models that concern more than one part of a spec."""

from typing import Any

from specfleet.api.model_uri import HUB, PINNED, is_pinned
from specfleet.api.rules import Rule

_MODEL = f"(has(self.model) && has(self.model.uri) && self.model.uri.startsWith('{HUB}'))"
_PROPOSER = f"(has(self.speculation.proposer) && self.speculation.proposer.uri.startsWith('{HUB}'))"
_MODEL_PINNED = f"(has(self.model.revision) && self.model.revision.matches('{PINNED}'))"
_PROPOSER_PINNED = (
    f"(has(self.speculation.proposer.revision) && self.speculation.proposer.revision.matches('{PINNED}'))"
)
_CACHED = "(has(self.model) && has(self.model.cacheClaim))"
_ENFORCES = (
    "((has(self.tuning) && has(self.tuning.mode) && self.tuning.mode == 'Enforce') || "
    "self.pools.exists(pool, has(pool.tuning) && has(pool.tuning.mode) && pool.tuning.mode == 'Enforce'))"
)
_PINNED_WHY = (
    "must be a commit (7 to 40 digits) with tuning.mode Enforce or with a model.cacheClaim: a branch or a "
    "tag may come to mean other files, which cannot be compared or shared"
)


def _model_is_from_hub(spec: Any) -> bool:
    found: bool = spec.model.uri.startswith(HUB)
    return found


def _proposer_is_from_hub(spec: Any) -> bool:
    proposer = spec.speculation.proposer
    return proposer is not None and proposer.uri.startswith(HUB)


def _must_be_pinned(spec: Any) -> bool:
    modes = (spec.tuning.mode, *(pool.tuning.mode for pool in spec.pools))
    return "Enforce" in modes or spec.model.cache_claim is not None


SOURCE_RULES = (
    Rule(
        f"model.revision {_PINNED_WHY}",
        f"!{_MODEL} || !({_ENFORCES} || {_CACHED}) || {_MODEL_PINNED}",
        lambda own: not _model_is_from_hub(own) or not _must_be_pinned(own) or is_pinned(own.model.revision),
        field="model.revision",
    ),
    Rule(
        f"speculation.proposer.revision {_PINNED_WHY}",
        f"!{_PROPOSER} || !({_ENFORCES} || {_CACHED}) || {_PROPOSER_PINNED}",
        lambda own: (
            not _proposer_is_from_hub(own)
            or not _must_be_pinned(own)
            or is_pinned(own.speculation.proposer.revision)
        ),
        field="speculation.proposer.revision",
    ),
    Rule(
        "model.cacheClaim keeps what is fetched with hf://, and neither model nor proposer is: drop it",
        f"!{_CACHED} || {_MODEL} || {_PROPOSER}",
        lambda own: own.model.cache_claim is None or _model_is_from_hub(own) or _proposer_is_from_hub(own),
        field="model.cacheClaim",
    ),
)
