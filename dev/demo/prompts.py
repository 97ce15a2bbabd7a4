"""What the demo's users send. The same prompts in every run, and again in the replays.

Repetitive text is code that repeats its own lines, which an n-gram proposer foresees; free text is chat about
many things; mixed is both, as many users together send it. A simulated engine rates a prompt by the same
repetition.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from dev.demo.plan import Text

_COPIES = 8


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt. ``ignore_eos`` makes every answer as long as the phase allows."""

    name: str
    text: str
    chat: bool
    ignore_eos: bool = False


def _file(start: str, block: str, opening: str) -> str:
    """Write a file that repeats a block, and opens one more: a model goes on with it."""
    blocks = "".join(block.replace("#", str(number)) for number in range(1, _COPIES + 1))
    return start + blocks + opening.replace("#", str(_COPIES + 1))


_CODE = {
    "rows": _file(
        "PODS = [\n",
        '    {"id": #, "pool": "main", "replicas": 2, "depth": 3, "state": "Active", "ready": True},\n',
        '    {"id": #,',
    ),
    "tests": _file(
        "import client\n\n",
        "def test_item_#():\n    result = client.get( '/items/#' )\n    assert result.status == 200\n"
        "    assert result.kind == 'item'\n    assert result.owner == 'demo'\n\n",
        "def test_item_#():",
    ),
    "statements": _file(
        "BEGIN;\n",
        "INSERT INTO pods ( name , pool , depth , ready ) VALUES ( 'pod-#' , 'main' , 3 , true );\n",
        "INSERT INTO pods",
    ),
    "settings": _file(
        "env:\n",
        "  - name: SETTING_#\n    value: the text that every setting of the demo begins with\n",
        "  - name: SETTING_#",
    ),
}

_QUESTIONS = (
    "Why do leaves change their colour in autumn?",
    "Describe a quiet morning in a small harbour town.",
    "What should I think about before I adopt a dog?",
    "Explain how a bicycle stays upright while it rolls.",
    "How would you plan a weekend in the mountains?",
    "Invent a short story about a lost umbrella.",
)

_ERRANDS = (
    "Repeat this sentence five times: the small boat waits in the harbour until the wind turns.",
    "Copy this list twice: apples, pears, plums, cherries, grapes, lemons, oranges, figs.",
    "Write the numbers from one to twenty, one in each line, as words.",
    "Write a poem about rain in which every line starts with: The rain falls on",
    "Say hello to Anna, Ben, Carla, David, Emma and Felix, each with the same greeting.",
    "Write a table of the days of the week and say of each that the shop is open from nine to five.",
    "What is the difference between a river and a lake?",
    "Give me three reasons to learn to swim.",
    "How does a microwave oven heat food?",
    "Recommend a book to someone who likes the sea, and say why.",
    "What happens when water freezes?",
    "Write a short letter to a neighbour about a noisy party.",
)

_PROMPTS: Mapping[Text, tuple[Prompt, ...]] = {
    "repetitive": tuple(Prompt(name, text, chat=False, ignore_eos=True) for name, text in _CODE.items()),
    "free": tuple(
        Prompt(f"question-{number}", text, chat=True) for number, text in enumerate(_QUESTIONS, start=1)
    ),
    "mixed": tuple(
        Prompt(f"errand-{number}", text, chat=True) for number, text in enumerate(_ERRANDS, start=1)
    ),
}


def prompts_for(text: Text) -> tuple[Prompt, ...]:
    """Give the prompts of one sort of text, in the order in which users take them."""
    return _PROMPTS[text]
