"""Decision bins: ranges of running requests that share one depth. Source: design/tuning.md, section 7."""

from dataclasses import dataclass

STARTS = (1, 2, 3, 4, 6, 8, 12, 16, 20, 28, 40, 56, 80, 112, 160, 224, 320)


@dataclass(frozen=True, slots=True)
class Bin:
    """Running requests ``first``..``last``; the last bin is open, its ``last`` is the engine's most."""

    first: int
    last: int

    @property
    def middle(self) -> float:
        """The geometric middle, where the bin is evaluated."""
        return float((self.first * self.last) ** 0.5)


def bins(max_requests: int) -> tuple[Bin, ...]:
    """Give the bins of an engine that runs at most ``max_requests`` in a batch."""
    starts = [start for start in STARTS if start <= max_requests]
    ends = [following - 1 for following in starts[1:]] + [max_requests]
    return tuple(Bin(first, last) for first, last in zip(starts, ends, strict=True))


def bin_of(batch: float, all_bins: tuple[Bin, ...]) -> int:
    """Find the index of the bin of a mean batch."""
    return max(i for i, one in enumerate(all_bins) if i == 0 or one.first <= batch + 0.25)
