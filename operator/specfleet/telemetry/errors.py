"""What can go wrong with Prometheus. No address, no answer text: these messages go into status and Events.

MetricsError
├── SourceUnavailable   no connection, 5xx, 429, or the circuit is open
├── SourceTimeout       the whole answer did not arrive in time
├── SourceRefused       401, 403, or the credentials file cannot be read
├── QueryRefused        400, 422: Prometheus does not accept the query
├── AnswerTooLarge      more bytes than the operator is willing to hold
├── AnswerPartial       Prometheus itself warns that data may be missing
└── AnswerMalformed     a redirect, not JSON, no data, or not a matrix
"""


class MetricsError(Exception):
    """Any query without a usable answer. For the tuner each one means: no data, hold."""


class SourceUnavailable(MetricsError):
    """Nobody answers, or the answer says: later."""


class SourceTimeout(MetricsError):
    """The deadline for the whole answer has passed."""


class SourceRefused(MetricsError):
    """Prometheus, or the gateway before it, does not accept the operator's credentials."""


class QueryRefused(MetricsError):
    """Prometheus cannot evaluate the query."""


class AnswerTooLarge(MetricsError):
    """The answer passes the size cap."""


class AnswerPartial(MetricsError):
    """The answer carries warnings: partial data is no data (trap P8)."""


class AnswerMalformed(MetricsError):
    """The answer is not what the query API of Prometheus gives."""
