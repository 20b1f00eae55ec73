"""What a session is: pure values, no driver, no await."""
