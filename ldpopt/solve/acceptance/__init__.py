"""Whether a path's point is called optimal: quick bounds first, the certificate last."""
