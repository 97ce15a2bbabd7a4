"""What the data sheet of a GPU tells before the first measurement: where its knee lies.

The knee m / c is the number of tokens of one step at which compute takes as long as reading the weights. The
model's size falls out of it, so it is known from the device alone; the level comes from the first windows.
Source: design/tuning.md, section 5, "Priors, per GPU"; figures of the makers' data sheets, dense BF16.
"""

from dataclasses import dataclass

WEIGHT_READ = 1.36  # measured weight reads over those of the data sheet
FLOPS_SHARE = 0.60  # of the data sheet: the middle of 75 % and 50 %
BYTES_PER_WEIGHT = 2.0
FLOPS_PER_WEIGHT = 2.0


@dataclass(frozen=True, slots=True)
class Gpu:
    """FLOP/s and bytes/s of one device."""

    flops: float
    bandwidth: float

    @property
    def knee_tokens(self) -> float:
        """m / c with weights of two bytes; tensor parallelism divides both."""
        read = BYTES_PER_WEIGHT * WEIGHT_READ / self.bandwidth
        return read / (FLOPS_PER_WEIGHT / (FLOPS_SHARE * self.flops))


# The longest name that a product label contains wins: H100 NVL before H100.
GPUS = {
    "B200": Gpu(2250e12, 8.0e12),
    "GH200": Gpu(989.5e12, 4.0e12),
    "H200": Gpu(989.5e12, 4.8e12),
    "H100-PCIE": Gpu(756e12, 2.0e12),
    "H100-NVL": Gpu(835e12, 3.9e12),
    "H100": Gpu(989.5e12, 3.35e12),
    "A100-SXM4-80GB": Gpu(312e12, 2.039e12),
    "A100": Gpu(312e12, 1.555e12),
    "L40S": Gpu(362e12, 0.864e12),
    "A40": Gpu(149.7e12, 0.696e12),
    "A10": Gpu(125e12, 0.6e12),
    "L4": Gpu(121e12, 0.3e12),
}


def knee_tokens(product: str) -> float | None:
    """Find the knee of a device by its node label nvidia.com/gpu.product; None: not on the list."""
    words = product.upper().replace("_", "-").replace(" ", "-")
    found = [name for name in GPUS if f"-{name}-" in f"-{words}-"]
    return GPUS[max(found, key=len)].knee_tokens if found else None
