"""Parameters of the OpenAI and vLLM interfaces that this server knows and cannot honour."""

from collections.abc import Mapping
from typing import Any

from specfleet_serving.errors import InvalidRequest

# With the values that ask for nothing; null always does.
NEUTRAL: Mapping[str, tuple[object, ...]] = {
    "prompt_logprobs": (),
    "echo": (False,),
    "suffix": ("",),
    "length_penalty": (1,),
    "use_beam_search": (False,),
    "bad_words": ([],),
    "include_stop_str_in_output": (False,),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "truncate_prompt_tokens": (),
    "add_special_tokens": (),
    "add_generation_prompt": (True,),
    "continue_final_message": (False,),
    "chat_template": (),
    "chat_template_kwargs": ({},),
    "tools": ([],),
    "tool_choice": ("none",),
    "parallel_tool_calls": (True, False),
    "functions": ([],),
    "function_call": ("none",),
    "response_format": ({"type": "text"},),
    "modalities": (["text"],),
    "audio": (),
    "prediction": (),
    "reasoning_effort": (),
    "verbosity": (),
    "service_tier": ("auto", "default"),
    "store": (False,),
    "web_search_options": (),
    "priority": (0,),
}


def without_neutral(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Drop the fields that ask for nothing. Raises InvalidRequest for one that asks for something."""
    for name, value in fields.items():
        if name in NEUTRAL and value is not None and not _is_neutral(value, NEUTRAL[name]):
            raise InvalidRequest(f"{name} is not supported with this value; leave it out", name)
    return {name: value for name, value in fields.items() if value is not None and name not in NEUTRAL}


def _is_neutral(value: object, neutral: tuple[object, ...]) -> bool:
    # 0 == False in Python: "logprobs": 0 asks for log-probabilities, "n": true is no number.
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in neutral)
