"""The key of the work queue: one `SpeculativeDeployment` by name. Everything else is read again."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Key:
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"
