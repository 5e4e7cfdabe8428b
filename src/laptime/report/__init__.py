"""How a result is shown: to people on a terminal, and to other programs. Opens no file."""
