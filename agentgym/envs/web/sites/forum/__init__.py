"""A forum: boards, topics, comments, votes, subscriptions, profiles."""
