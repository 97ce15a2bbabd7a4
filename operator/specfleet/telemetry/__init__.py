"""Prometheus behind one async port: queries, raw samples with their own time stamps, differences."""
