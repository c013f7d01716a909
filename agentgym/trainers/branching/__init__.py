"""What is played next of a group whose episodes branch off from one another: one method a module."""
