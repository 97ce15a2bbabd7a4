"""What can go wrong with Kubernetes. No response text is carried, since it may hold object data, but for the
message of a 403: it names the quota, the policy or the right, and nothing else does. Of an apply that does
not fit the kind's schema the fields are told, and what is wrong with each.

ClusterError
├── NotFound        404
├── Conflict        409: somebody else wrote, or the uid differs
├── Forbidden       401; 403: a right is missing, a quota is used up, an admission webhook said no
├── Invalid         400, 422, 500 for a field that the kind lacks: our object is wrong; retrying will not help
│                   before something changes
├── Expired         410: start a list or watch again
└── Unavailable     429, 5xx, timeouts, connection errors: try again later
"""


class ClusterError(Exception):
    """Any failed call to the API server."""


class NotFound(ClusterError):
    """No such object, or its kind is not served."""


class Conflict(ClusterError):
    """The object changed meanwhile, is owned by another manager, or has another uid."""


class Forbidden(ClusterError):
    """The operator may not do this: by its rights, or by a quota or an admission policy."""


class Invalid(ClusterError):
    """The API server refused the object itself."""


class Expired(ClusterError):
    """The resource version or the continue token is too old."""


class Unavailable(ClusterError):
    """The API server did not answer, or asked to come back later."""
