"""Spec and observed state in, Kubernetes objects out. Pure.

`plan.plan` is the one entry; one module per object kind builds dicts for server-side apply.
"""
