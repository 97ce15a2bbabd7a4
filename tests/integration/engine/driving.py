"""Run a core by hand, as the serving loop would, and keep what it said."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM

from specfleet_engine.core import EngineCore
from specfleet_engine.load import load_model
from specfleet_engine.proposers.ngram import NgramProposer
from specfleet_serving.core import Request, Sampling, Step


def a_core(
    folder: Path,
    *,
    max_model_len: int = 512,
    max_num_seqs: int = 8,
    max_depth: int = 5,
    kv_cache_mib: int = 64,
) -> EngineCore:
    return EngineCore(
        load_model(folder, torch.float32, max_model_len),
        NgramProposer(2, 5),
        max_model_len=max_model_len,
        max_num_seqs=max_num_seqs,
        max_depth=max_depth,
        kv_cache_mib=kv_cache_mib,
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
