"""The seam between serving and an engine: plain values in, plain values out.

The loop owns time, trimming, metrics and streams; a core owns sequences, the KV cache, drafting and
verification. All methods of a core are called from the loop's thread, one at a time.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

# Below this vLLM is greedy too.
LOWEST_TEMPERATURE = 1e-5


@dataclass(frozen=True, slots=True)
class Sampling:
    """How to choose the tokens of one request, and where its answer ends.

    ``ends`` are the tokens that end it; ``min_tokens`` tokens come first that are none of them.
    ``logit_bias`` has pairs of token and bias. ``logprobs`` asks for the log-probability of each token, and
    of as many of the likeliest ones; None: for none at all.
    """

    max_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0  # 0: all tokens
    min_p: float = 0.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    repetition_penalty: float = 1.0
    logit_bias: tuple[tuple[int, float], ...] = ()
    seed: int | None = None
    stop: tuple[str, ...] = ()
    ends: frozenset[int] = frozenset()
    min_tokens: int = 0
    logprobs: int | None = None

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken: at temperature 0, or at one too low to divide by."""
        return self.temperature < LOWEST_TEMPERATURE


@dataclass(frozen=True, slots=True)
class Request:
    """One sequence to generate. The prompt is already tokenised and fits the model's length.

    ``continues``: the answer's text goes on where the prompt's ends, as a completion's does and a chat's not.
    """

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling
    continues: bool = False


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """Natural log-probability of one token by the model alone, before anything the request changes.

    ``top`` has the likeliest tokens with theirs, likeliest first.
    """

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceStep:
    """What one step gave one request, before trimming.

    ``tokens`` are new tokens in order; the last one is not a draft. ``drafted`` tokens were proposed and the
    first ``accepted`` of ``tokens`` are drafts that were accepted. ``first`` marks the request's first token.
    ``logprobs`` has one entry for each token if the request wants them. ``failed``: this request is lost.
    """

    request_id: str
    tokens: tuple[int, ...]
    drafted: int = 0
    accepted: int = 0
    first: bool = False
    logprobs: tuple[TokenLogprob, ...] = ()
    failed: bool = False


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a core. ``decoding`` is 0 for a step that only read prompts.

    ``depth`` is the scheduled one that `Core.step` was given, however many tokens were drafted at it.
    ``prompt_tokens`` counts each prompt once, cached tokens included, even if a preemption has it read twice.
    ``seconds`` is the time of the whole step. ``proposer_seconds``, of the proposer alone, and
    ``verify_seconds``, of the target's pass and its verdicts, are parts of it; planning is in neither.
    ``admitted`` are the ids that left the waiting queue in this step.
    """

    depth: int
    decoding: int
    seconds: float
    sequences: tuple[SequenceStep, ...]
    admitted: tuple[str, ...] = ()
    prompt_tokens: int = 0
    cached_prompt_tokens: int = 0
    preempted: int = 0
    proposer_seconds: float = 0.0
    verify_seconds: float = 0.0

    @property
    def lost(self) -> bool:
        """Whether requests got something from it, and every one of them nothing usable."""
        return bool(self.sequences) and all(sequence.failed for sequence in self.sequences)

    @property
    def decoded(self) -> bool:
        """Whether it gave a request more than its first token: drafting and verification work then, too."""
        return any(one.tokens and not (one.first or one.failed) for one in self.sequences)


class StepFailed(Exception):
    """A step could not be run. ``requests`` are the ids of all in its batch, newcomers included."""

    def __init__(self, requests: frozenset[str], cause: Exception) -> None:
        super().__init__(f"a step of {len(requests)} requests failed: {cause}")
        self.requests = requests


@dataclass(frozen=True, slots=True)
class Load:
    """How busy a core is now. ``kv_usage`` is the used share of the KV cache, 0..1."""

    running: int
    decoding: int
    waiting: int
    kv_usage: float


@dataclass(frozen=True, slots=True)
class Limits:
    """What a core was started with. ``kv_tokens`` is the size of the KV cache in tokens.

    ``unsupported`` are fields of `Sampling` that the core has no means to honour: the server refuses them.
    """

    max_model_len: int
    max_num_seqs: int
    max_depth: int
    method: str  # the proposer's name in the operator's words: ngram, draftModel, ..., none
    kv_tokens: int
    kv_block_size: int
    unsupported: frozenset[str] = frozenset()


class Core(Protocol):
    """An engine behind the loop."""

    limits: Limits

    def add(self, request: Request) -> None:
        """Queue a request. Never blocks."""

    def remove(self, request_id: str) -> None:
        """Forget a finished or cancelled request and free all it holds. Unknown ids are fine."""

    def load(self) -> Load: ...

    def step(self, depth: int) -> Step | None:
        """Run one step: read prompts that fit, and decode with up to ``depth`` drafts a request.

        None: there is nothing to do. Raises StepFailed; any other error may be the fault of any request.
        """


class Tokenizer(Protocol):
    """Text to tokens and back. ``decode`` is called on growing lists, so it must be stable for prefixes."""

    eos_ids: frozenset[int]
    vocabulary_size: int

    def encode(self, text: str) -> list[int]: ...

    def decode(self, tokens: Sequence[int]) -> str: ...

    def token_bytes(self, token: int) -> bytes:
        """What a token alone stands for: maybe a part of a character, or a special token's name."""

    def chat(self, messages: Sequence[dict[str, str]]) -> list[int]:
        """Apply the chat template, with the prompt for the assistant's turn at the end."""
