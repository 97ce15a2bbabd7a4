"""What the user's extra arguments ask of an engine: flags by one spelling, and rules about some of them.

vLLM and SGLang take ``--a-b 1``, ``--a_b=1``, short names, and vLLM also ``--a-b.key=1``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from specfleet.api.resource import Spec
from specfleet.engines.engine import Refusal

Given = Mapping[str, str]
"""Flags in their long spelling with dashes, and their values; empty: none was given."""


def given(extra_args: Sequence[str], short: Mapping[str, str]) -> Given:
    """Read arguments. ``short``: other names of flags, such as ``-tp``, and what they stand for."""
    found: dict[str, str] = {}
    last = ""
    for argument in extra_args:
        if not argument.startswith("-"):
            found |= {last: argument} if last else {}
            last = ""
            continue
        name, _, value = argument.partition("=")
        head, dot, key = name.partition(".")
        head = head.replace("_", "-")
        last = f"{short.get(head, head)}{dot}{key}"
        found[last] = value
    return found


def number(flags: Given, flag: str) -> int:
    """Read a count; 1 where it is not given or is no number, which the engine itself refuses."""
    value = flags.get(flag, "")
    return int(value) if value.isdecimal() else 1


@dataclass(frozen=True, slots=True)
class FlagRule:
    """A flag that an engine takes and that must not be there: always, or with what ``applies`` says."""

    flags: tuple[str, ...]
    reason: str
    message: str
    applies: Callable[[Spec, str], bool] = lambda spec, value: True


def broken(rules: Sequence[FlagRule], flags: Given, spec: Spec) -> Iterator[Refusal]:
    """Refuse each flag that breaks a rule, once."""
    for rule in rules:
        for flag, value in flags.items():
            if flag in rule.flags and rule.applies(spec, value):
                yield Refusal(rule.reason, f"engine.extraArgs: {flag}: {rule.message}")


def has_weights(spec: Spec) -> bool:
    """Say whether drafts come from weights, with a KV cache or hidden states of their own."""
    return spec.speculation.method in ("draftModel", "eagle", "eagle3", "medusa", "mtp")


def speculates(spec: Spec) -> bool:
    return spec.speculation.method != "none"
