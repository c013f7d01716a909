"""A calendar: month, week, day, events with attendees, invitations."""
