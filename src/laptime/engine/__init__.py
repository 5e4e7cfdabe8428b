"""How a training is run and timed: the parent, its children, and the frameworks in them."""
