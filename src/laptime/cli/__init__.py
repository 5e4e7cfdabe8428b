"""The command line: a thin module per group of commands. Only this room prints or exits."""
