"""What the users ask: never the same text twice, so that no engine profits from a prefix that it has seen."""

from itertools import count

__all__ = ["fresh_prompts", "repetitive_prompts"]

_SUBJECTS = (
    "a lighthouse",
    "the tax office",
    "an old orchard",
    "a chess club",
    "the night train",
    "a glacier",
)
_VERBS = ("explains", "forgets", "repairs", "inherits", "paints", "measures")
_OBJECTS = (
    "the harbour",
    "a borrowed map",
    "seven letters",
    "the first bridge",
    "a quiet engine",
    "its shadow",
)
_numbers = count(1)


def fresh_prompts(users: int) -> list[str]:
    """About fifty tokens each."""
    return [_fresh(next(_numbers)) for _ in range(users)]


def repetitive_prompts(users: int) -> list[str]:
    """A pattern that a small model goes on with, so that look-up drafts are right."""
    return [_repetitive(next(_numbers)) for _ in range(users)]


def _fresh(number: int) -> str:
    subject, verb = _SUBJECTS[number % 6], _VERBS[number // 6 % 6]
    thing = _OBJECTS[number // 36 % 6]
    return (
        f"Story {number}. It was said that {subject} {verb} {thing} once in {number + 3} years. Nobody had "
        f"seen it happen, and yet everybody in the valley could tell the story of that day in great detail:"
    )


def _repetitive(number: int) -> str:
    return f"List {number}:\n" + "the red fox, the green fox, the blue fox, the grey fox\n" * 6
