"""A forum site: boards, topics, comments, votes, subscriptions, profiles."""
