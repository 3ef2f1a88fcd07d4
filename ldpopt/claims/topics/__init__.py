"""The claims themselves, a module for each topic."""
