"""What a user asks: a YAML with hardware, model, acceptance and traffic, made into a scenario.

Times follow from data sheets by the rules of design/tuning.md, section 5, "Priors, per GPU"; whoever has
measured better gives the milliseconds of drafts and the engine's own number of KV tokens.
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from specfleet.api.resource import Written
from specfleet.planning.device_memory import product_memory_mib
from specfleet.simulator.acceptance import CHAT, CODE, RETRIEVAL, Acceptance
from specfleet.simulator.cost import Cost
from specfleet.simulator.layout import POSITIONS
from specfleet.simulator.scenario import Limits, Scenario, Slice
from specfleet.simulator.traffic import Traffic
from specfleet.tuning.hardware import FLOPS_PER_WEIGHT, FLOPS_SHARE, GPUS, WEIGHT_READ

KV_READ = 1.95  # measured KV reads over those of the data sheet
LAYER_SECONDS = 32.1e-6
COMMUNICATION_SECONDS = 1.1e-3  # all-reduces of a step with more than one GPU

_MIXED = "mixed"
_KINDS: Mapping[str, tuple[float, ...]] = {"code": CODE, "chat": CHAT, "retrieval": RETRIEVAL}
# Tokens per step at depth 3 of gpt-oss-20b: vLLM's blog of 2026-03-13, arXiv 2602.01469.
_PUBLISHED_LENGTHS: Mapping[str, float] = {
    "eagle3-humaneval": 2.65,
    "eagle3-speed-bench-code": 2.24,
    "eagle3-mt-bench": 2.70,
    "p-eagle-humaneval": 3.02,
    "p-eagle-speed-bench-code": 2.87,
    "p-eagle-mt-bench": 2.87,
}
PROFILES = (_MIXED, *_KINDS, *_PUBLISHED_LENGTHS)


def survival_of(tokens: float, depth: int) -> tuple[float, ...]:
    """Give S_i = alpha^i of the alpha that makes ``tokens`` per step at a depth, bonus token included.

    Raises ValueError for a length that no alpha in 0..1 makes.
    """
    if not 1.0 <= tokens <= depth + 1:
        raise ValueError(f"{tokens} tokens per step are not possible at depth {depth}")
    low, high = 0.0, 1.0
    for _ in range(50):
        alpha = (low + high) / 2
        if 1.0 + sum(alpha**i for i in range(1, depth + 1)) < tokens:
            low = alpha
        else:
            high = alpha
    return tuple(low**i for i in range(1, POSITIONS + 1))


class ModelSize(Written):
    """Of the target. ``kv_bytes_per_token``: 2 x layers x KV heads x head size x bytes of a number."""

    parameters: float = Field(gt=0)
    layers: int = Field(ge=1)
    kv_bytes_per_token: float = Field(gt=0)
    bytes_per_weight: float = Field(default=2.0, gt=0)


class Draft(Written):
    """What drafting adds to a step: once, and for each token of the depth."""

    milliseconds: float = Field(default=0.6, ge=0)
    milliseconds_per_token: float = Field(default=0.9, ge=0)


class Accepted(Written):
    """Exactly one of them. ``per_position``: share of drafts accepted up to position 1, 2, ..."""

    profile: str | None = None
    per_position: tuple[float, ...] | None = Field(default=None, min_length=1)
    tokens_per_step: float | None = None
    at_depth: int = Field(default=3, ge=1, le=POSITIONS)

    @model_validator(mode="after")
    def _one_of_them(self) -> Self:
        given = [self.profile, self.per_position, self.tokens_per_step]
        if sum(value is not None for value in given) != 1:
            raise ValueError("give one of profile, perPosition and tokensPerStep")
        if self.profile is not None and self.profile not in PROFILES:
            raise ValueError(f"profile must be one of {', '.join(PROFILES)}")
        self.acceptance()
        return self

    def acceptance(self) -> Acceptance:
        """Give the text: the mix of the design with its regimes, or one steady kind."""
        if self.profile == _MIXED:
            return Acceptance(collapse=False)
        if self.per_position is not None:
            survival = self.per_position
        elif self.tokens_per_step is not None:
            survival = survival_of(self.tokens_per_step, self.at_depth)
        else:
            name = self.profile or ""
            survival = _KINDS.get(name) or survival_of(_PUBLISHED_LENGTHS[name], 3)
        return Acceptance(profiles=(survival,), mix=(1.0,), regimes=False, collapse=False, drift=0.0)


class Load(Written):
    """``peak`` in parts of what the pods complete without speculation; lengths are medians in tokens."""

    peak: float = Field(default=0.9, gt=0, le=5)
    shape: Literal["diurnal", "steady"] = "diurnal"
    hours: float = Field(default=4.0, gt=0, le=168)
    burst: float = Field(default=1.5, ge=1)
    long_share: float = Field(default=0.1, ge=0, le=1)


class Depths(Written):
    initial: int = Field(default=2, ge=0, le=POSITIONS)
    max: int = Field(default=5, ge=1, le=POSITIONS)


class SimulationRequest(Written):
    """The YAML of `specfleet simulate`."""

    kind: Literal["Simulation"] = "Simulation"
    gpu: str
    gpus_per_pod: int = Field(default=1, ge=1)
    model: ModelSize
    acceptance: Accepted
    traffic: Load = Load()
    draft: Draft = Draft()
    depth: Depths = Depths()
    pods: int = Field(default=1, ge=1, le=64)
    kv_tokens: int = Field(default=448_000, ge=30_000)
    idle_tax_percent: float = Field(default=8.0, ge=0, le=100)
    seed: int = Field(default=101, ge=0)

    @model_validator(mode="after")
    def _known_gpu(self) -> Self:
        if self.gpu not in GPUS:
            raise ValueError(f"gpu must be one of {', '.join(GPUS)}")
        if self.depth.initial > self.depth.max:
            raise ValueError("depth.initial must not be above depth.max")
        return self

    @model_validator(mode="after")
    def _fits(self) -> Self:
        """Refuse what no engine could hold. GPUs that are sold with more than one size are not judged."""
        memory = product_memory_mib(self.gpu)
        weights = self.model.parameters * self.model.bytes_per_weight / 2**30
        cache = self.kv_tokens * self.model.kv_bytes_per_token / 2**30
        if memory is not None and weights + cache > self.gpus_per_pod * memory / 1024:
            raise ValueError(
                f"weights of {weights:.0f} GiB and a cache of kvTokens {self.kv_tokens} x "
                f"model.kvBytesPerToken = {cache:.0f} GiB do not fit into gpusPerPod {self.gpus_per_pod} x "
                f"{memory // 1024} GiB of {self.gpu}"
            )
        return self

    def scenario(self) -> Scenario:
        """Make the scenario."""
        load = self.traffic
        return Scenario(
            "simulation",
            seconds=round(3600 * load.hours),
            cost=self.cost(),
            acceptance=self.acceptance.acceptance(),
            traffic=Traffic(shape=load.shape, peak=load.peak, burst=load.burst, long_share=load.long_share),
            # A proposer's own cache takes the share that it takes in the design's base case.
            limits=Limits(kv_tokens=self.kv_tokens, kv_tokens_loaded=round(435 / 448 * self.kv_tokens)),
            slices=(Slice(pods=self.pods),),
            initial_depth=self.depth.initial,
            max_depth=self.depth.max,
        )

    def cost(self) -> Cost:
        """Give the time of a step from the data sheet of the GPU."""
        gpu, model, count = GPUS[self.gpu], self.model, self.gpus_per_pod
        return Cost(
            memory=model.parameters * model.bytes_per_weight * WEIGHT_READ / (count * gpu.bandwidth),
            overhead=model.layers * LAYER_SECONDS + (COMMUNICATION_SECONDS if count > 1 else 0.0),
            token=FLOPS_PER_WEIGHT * model.parameters / (FLOPS_SHARE * count * gpu.flops),
            kv=model.kv_bytes_per_token * KV_READ / (count * gpu.bandwidth),
            draft=self.draft.milliseconds / 1000,
            draft_depth=self.draft.milliseconds_per_token / 1000,
            tax=self.idle_tax_percent / 100,
        )
