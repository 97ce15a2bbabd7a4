"""The resources: models, validation, the schedule table, and the CRD generated from them.

Everything else reads a `SpeculativeDeployment` through this package; it imports nothing of specfleet.
"""
