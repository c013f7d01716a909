"""A calendar site: month, week, day, events with attendees, invitations."""
