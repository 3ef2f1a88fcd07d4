"""What is simulated: users of a population through an oracle, post-processed and measured, a cell at a time."""
