"""Kubernetes behind one async port, and what an operator needs beside it: work queue, lease, events."""
