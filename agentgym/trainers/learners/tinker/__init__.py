"""Training on a server of the Tinker API: requests, qualification of the server, and the learner."""
