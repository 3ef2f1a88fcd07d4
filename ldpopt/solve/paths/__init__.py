"""The ways to a minimiser: closed forms, algorithms of our own, cone programs."""
