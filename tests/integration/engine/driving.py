"""Run a core by hand, as the serving loop would, and keep what it said."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from transformers import AutoModelForCausalLM

from specfleet_engine.cache import FeatureCache
from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model, load_tokenizer
from specfleet_engine.proposers import Draft, Needs, Proposer
from specfleet_engine.proposers.chain import ChainProposer
from specfleet_engine.proposers.choose import load_proposer, read_heads
from specfleet_engine.proposers.networks import ModelNetwork
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_engine.sequence import Sequence
from specfleet_serving.core import Request, Sampling, Step


def a_core(
    folder: Path,
    *,
    max_model_len: int = 512,
    max_num_seqs: int = 8,
    max_depth: int = 5,
    kv_cache_mib: int = 64,
    proposer: Proposer | None = NgramProposer(2, 5),  # noqa: B008  it has no state
) -> EngineCore:
    return EngineCore(
        load_model(folder, torch.float32, max_model_len),
        proposer,
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_depth=max_depth,
        kv_cache_mib=kv_cache_mib,
    )


def a_drafting_core(target: Path, method: str, folder: Path | None, **settings: int) -> EngineCore:
    """A core whose proposer is read from a folder; `ngram` and `none` have none."""
    limits = {"max_model_len": 512, "max_num_seqs": 8, "max_depth": 5, "kv_cache_mib": 64, **settings}
    model = load_model(target, torch.float32, limits["max_model_len"])
    proposer: Proposer | None = NgramProposer(2, 5) if method == "ngram" else None
    if folder:
        proposer = load_proposer(method, folder, model, load_tokenizer(target, model))
    return EngineCore(model, proposer, **limits)


class Scripted:
    """Drafts as it is told: ``guess`` gives what may follow a sequence. Remembers how it was called."""

    method = "scripted"
    weight_bytes = 0
    bytes_per_token = 0
    draws = False
    reach = None

    def __init__(self, guess: Callable[[Sequence, int], list[int]], needs: Needs = Needs()) -> None:  # noqa: B008
        self.needs = needs
        self.features: FeatureCache | None = None
        self.calls: list[str] = []
        self.seen: tuple[Sequence, ...] = ()
        self._guess = guess

    def prepare(self, blocks: int, features: FeatureCache | None) -> None:
        self.features = features

    def propose(self, sequences: tuple[Sequence, ...], depths: tuple[int, ...]) -> list[Draft]:
        self.calls.append("propose")
        return [
            Draft(np.array(self._guess(sequence, depth)[:depth], dtype=np.int64))
            for sequence, depth in zip(sequences, depths, strict=True)
        ]

    def observe(self, sequences: tuple[Sequence, ...]) -> None:
        self.calls.append("observe")
        self.seen = sequences

    def forget(self, sequence_id: str) -> None:
        self.calls.append(f"forget {sequence_id}")


def a_constructed_core(
    target: Path, method: str, folder: Path | None, depth: int = 4, max_num_seqs: int = 64
) -> EngineCore:
    """A core over models that have no tokenizer, which a draft model is otherwise checked by.

    Without a folder the method is n-gram look-up, which one known token is enough for.
    """
    model = load_model(target, torch.float32)
    proposer: Proposer = NgramProposer(1, 3)
    if folder and method == "draftModel":
        proposer = ChainProposer(ModelNetwork(load_model(folder, torch.float32), model.vocabulary_size))
    elif folder:
        proposer = read_heads(method, folder, model)
    return EngineCore(
        model, proposer, max_model_len=120, max_num_seqs=max_num_seqs, max_depth=depth, kv_cache_mib=64
    )


def greedy(name: str, prompt: Iterable[int], max_tokens: int) -> Request:
    return Request(name, tuple(prompt), Sampling(max_tokens=max_tokens, temperature=0.0))


@dataclass
class Run:
    texts: dict[str, list[int]] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)

    @property
    def decode_steps(self) -> list[Step]:
        return [step for step in self.steps if step.decoding]

    @property
    def drafted(self) -> int:
        return sum(sequence.drafted for step in self.steps for sequence in step.sequences)

    @property
    def accepted(self) -> int:
        return sum(sequence.accepted for step in self.steps for sequence in step.sequences)

    @property
    def preempted(self) -> int:
        return sum(step.preempted for step in self.steps)

    @property
    def cached(self) -> int:
        return sum(step.cached_prompt_tokens for step in self.steps)

    @property
    def read(self) -> int:
        return sum(step.prompt_tokens for step in self.steps)


def drive(
    core: EngineCore,
    requests: Iterable[Request],
    depth: int | Callable[[int], int],
    *,
    joining: Mapping[int, Request] | None = None,
    leaving: Mapping[int, str] | None = None,
) -> Run:
    """Step until nothing is left. Finished requests are removed; others join and leave before a step."""
    run, budgets = Run(), {}
    joining, leaving = dict(joining or {}), dict(leaving or {})
    for request in requests:
        core.add(request)
        budgets[request.id] = request.sampling.max_tokens
    for number in range(100_000):
        if request := joining.pop(number, None):
            core.add(request)
            budgets[request.id] = request.sampling.max_tokens
        if name := leaving.pop(number, None):
            core.remove(name)
        step = core.step(depth if isinstance(depth, int) else depth(number))
        if step is None:
            return run
        run.steps.append(step)
        for sequence in step.sequences:
            text = run.texts.setdefault(sequence.request_id, [])
            assert sequence.first == (not text)
            text.extend(sequence.tokens)
            if len(text) >= budgets[sequence.request_id]:
                core.remove(sequence.request_id)
    raise AssertionError("the core never came to an end")


def generate(folder: Path, prompt: Iterable[int], max_tokens: int) -> list[int]:
    """What transformers itself says, greedily and without an end token."""
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="sdpa")
    ids = torch.tensor([list(prompt)])
    model.generation_config.eos_token_id = None
    out = model.generate(
        ids, attention_mask=torch.ones_like(ids), max_new_tokens=max_tokens, do_sample=False, pad_token_id=2
    )
    text: list[int] = out[0, ids.shape[1] :].tolist()
    return text
