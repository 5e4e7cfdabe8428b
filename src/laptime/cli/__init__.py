"""One thin module a command; the only room that prints or exits."""
