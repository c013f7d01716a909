"""Training on a server of the Tinker API: the requests, the server's qualification, and the learner."""
