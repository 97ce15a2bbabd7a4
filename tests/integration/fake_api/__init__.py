"""An API server in the test's own process: server-side apply, garbage collection, watches, faults.

`store` is the state and the rules, `server` the HTTP around it, `direct` the client port without any HTTP.
It does no defaulting, pruning, validation or CEL, but for the names in an affinity: the contract suite also
runs against the real server.
"""

from tests.integration.fake_api.direct import DirectClient
from tests.integration.fake_api.faults import Faults
from tests.integration.fake_api.server import FakeServer
from tests.integration.fake_api.store import Refused, Store

__all__ = ["DirectClient", "FakeServer", "Faults", "Refused", "Store"]
