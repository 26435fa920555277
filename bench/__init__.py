"""Measurements. Ratios within one run count; absolute figures depend on the machine."""
