"""What stops the cluster tool. The text is shown as it stands, so it says what to do."""


class ClusterError(Exception):
    """The cluster cannot be brought to the wanted state."""
