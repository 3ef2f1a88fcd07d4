"""What a claim is, what it is checked on, and how it is run."""
