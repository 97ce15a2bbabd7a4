"""The simulated engine (`specfleet_simulated`): the same contract, a cost model instead of a model."""

from specfleet.api.duration import seconds
from specfleet.api.owned import COMMON_FLAGS, SIMULATED_FLAGS
from specfleet.api.resource import SimulatedSpec, Spec
from specfleet.engines.engine import Actuation, ModelPaths, Refusal, Runtime, Timing
from specfleet.engines.flags import common_arguments, own_runtime, owned_flag_refusals


class SimulatedEngine:
    """Arguments, limits and timing of the simulated engine."""

    name = "simulated"
    owned_flags = (*COMMON_FLAGS, *SIMULATED_FLAGS)
    # startup: two busy cores start 20 of them in about a minute. drain: 2048 tokens at 20 ms take 41 s.
    timing = Timing(preparation=180, pre_stop=5, drain=60, teardown=10)

    def actuation(self, spec: Spec) -> Actuation:
        return Actuation("live")

    def devices(self, spec: Spec) -> int:
        return 1

    def runtime(self, spec: Spec) -> Runtime:
        return own_runtime("specfleet_simulated")

    def refusals(self, spec: Spec) -> tuple[Refusal, ...]:
        return owned_flag_refusals(self.owned_flags, spec.engine.extra_args)

    def arguments(
        self, spec: Spec, *, served_name: str, paths: ModelPaths, schedule_file: str
    ) -> tuple[str, ...]:
        simulated = spec.engine.simulated or SimulatedSpec()
        return (
            *common_arguments(spec, self.timing, served_name=served_name, schedule_file=schedule_file),
            *("--repetitive-acceptance-percent", str(simulated.repetitive_acceptance_percent)),
            *("--free-acceptance-percent", str(simulated.free_acceptance_percent)),
            *("--step-milliseconds", f"{seconds(simulated.step_time) * 1000:g}"),
            *("--knee-tokens", str(simulated.knee_tokens)),
            *("--kv-cache-tokens", str(simulated.kv_cache_tokens)),
        )
