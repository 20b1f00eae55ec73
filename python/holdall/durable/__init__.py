"""What is built on any store."""
