"""What goes in the window."""
