"""Real servers for the tests: started on free loopback ports in folders of their own, stopped in the end."""
