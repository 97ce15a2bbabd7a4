"""What the engines of ours have in common: flags, probes, and the check that nobody else sets the flags."""

from collections.abc import Sequence

from specfleet.api.resource import NgramSpec, Spec
from specfleet.engines.engine import Port, Probe, Probes, Refusal, Runtime, Timing

HTTP = Port("http", 8000)


def own_runtime(module: str) -> Runtime:
    """Give what a container of ours needs: liveness gives up after a minute, since steps may be long."""
    return Runtime(
        command=("python", "-m", module),
        ports=(HTTP,),
        probes=Probes(
            startup=Probe("/health"),
            liveness=Probe("/health", period=10, failures=6),
            readiness=Probe("/ready"),
        ),
    )


def common_arguments(spec: Spec, timing: Timing, *, served_name: str, schedule_file: str) -> tuple[str, ...]:
    """Write the flags that are the same for every engine of ours, in a fixed order."""
    return (
        *("--served-model-name", served_name),
        *("--host", "0.0.0.0"),  # noqa: S104 - inside a pod, where Services and probes must reach it
        *("--port", str(HTTP.number)),
        *("--schedule-file", schedule_file),
        *("--initial-depth", str(spec.speculation.depth.initial)),
        *("--max-depth", str(spec.speculation.depth.max)),
        *_method(spec),
        *("--max-model-len", str(spec.engine.max_model_len)),
        *("--max-num-seqs", str(spec.engine.max_num_seqs)),
        *("--drain-seconds", str(timing.drain)),
    )


def _method(spec: Spec) -> tuple[str, ...]:
    if spec.speculation.method != "ngram":
        return ("--method", spec.speculation.method)
    ngram = spec.speculation.ngram or NgramSpec()
    return (
        *("--method", "ngram"),
        *("--ngram-min-match", str(ngram.min_match)),
        *("--ngram-max-match", str(ngram.max_match)),
    )


def owned_flag_refusals(owned: Sequence[str], extra_args: Sequence[str]) -> tuple[Refusal, ...]:
    """Refuse flags that specfleet writes itself, also shortened as argparse allows (``--max-model``).

    The engine would let the last of two equal flags win, in silence.
    """
    flags = [argument.partition("=")[0] for argument in extra_args]
    return tuple(
        Refusal(
            "OwnedFlag",
            f"engine.extraArgs: {flag} stands for {full}, which specfleet sets itself: "
            "remove it and use the field of the resource instead",
        )
        for flag in dict.fromkeys(flags)
        for full in owned
        if len(flag) > len("--") and full.startswith(flag)
    )
