"""Certificates in exact arithmetic: ``certify(..., exact=True)``."""
