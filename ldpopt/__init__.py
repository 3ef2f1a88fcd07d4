"""Post-processing of locally differentially private frequency estimates as convex problems."""
