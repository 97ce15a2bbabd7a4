"""What the user's extra arguments ask of an engine: flags by one spelling, and rules about some of them.

vLLM and SGLang take ``--a-b 1``, ``--a-b=1``, short names and, by argparse, any beginning of a name that is
no other's. vLLM takes ``--a_b`` too, and the keys of a JSON object one by one: ``--a-b.key=1``.
"""

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from specfleet.api.resource import Spec
from specfleet.engines.engine import Refusal

Given = Mapping[str, str]
"""Flags in their long spelling with dashes, and their values; empty: none was given. Of a JSON object each
key is a flag of its own."""


def given(extra_args: Sequence[str], short: Mapping[str, str], read: Collection[str]) -> Given:
    """Read arguments.

    ``short``: other names of flags, such as ``-tp``, and what they stand for. ``read``: flags that somebody
    asks for, which are also found by the beginnings of their names.
    """
    found: dict[str, str] = {}
    last = ""
    for argument in extra_args:
        if not argument.startswith("-"):
            found |= _by_key(last, argument) if last else {}
            last = ""
            continue
        name, _, value = argument.partition("=")
        head, dot, key = name.partition(".")
        last = f"{_whole(head.replace('_', '-'), short, read)}{dot}{key}"
        found |= _by_key(last, value)
    return found


def _whole(name: str, short: Mapping[str, str], read: Collection[str]) -> str:
    """Complete a name as argparse does. What several could be meant by stays, and ends the engine."""
    if name in read or name in short or not name.startswith("--"):
        return short.get(name, name)
    meant = {short.get(long, long) for long in (*read, *short) if long.startswith(name)}
    return meant.pop() if len(meant) == 1 else name


def _by_key(flag: str, value: str) -> dict[str, str]:
    try:
        document = json.loads(value) if value.startswith("{") else None
    except ValueError:
        document = None
    if not isinstance(document, dict) or not document:
        return {flag: value}
    found: dict[str, str] = {}
    for key, inner in document.items():
        found |= _by_key(f"{flag}.{key}", inner if isinstance(inner, str) else json.dumps(inner))
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
        for flag in rule.flags:
            values = [value for name, value in flags.items() if name == flag or name.startswith(f"{flag}.")]
            if any(rule.applies(spec, value) for value in values):
                yield Refusal(rule.reason, f"engine.extraArgs: {flag}: {rule.message}")


def names_of(rules: Sequence[FlagRule]) -> frozenset[str]:
    """Give the flags that rules ask for, without keys."""
    return frozenset(flag.partition(".")[0] for rule in rules for flag in rule.flags)


def switched_on(spec: Spec, variable: str) -> bool:
    """Say whether ``engine.env`` switches something on, in a spelling that both engines take."""
    values = [entry.value for entry in spec.engine.env if entry.name == variable]
    return any(value is not None and value.lower() in ("1", "true") for value in values)


def has_weights(spec: Spec) -> bool:
    """Say whether drafts come from weights, with a KV cache or hidden states of their own."""
    return spec.speculation.method in ("draftModel", "eagle", "eagle3", "medusa", "mtp")


def speculates(spec: Spec) -> bool:
    return spec.speculation.method != "none"
