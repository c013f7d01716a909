"""Training on a server that speaks the Tinker API: what is sent, what the server is found to compute, and the learner."""
