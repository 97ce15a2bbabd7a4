"""Samples in, decisions out. Pure: no clock, no client, no environment.

samples -> estimates -> floors -> decision; memory that must outlive a restart is a plain value.
"""
