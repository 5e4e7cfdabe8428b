"""The parent's side of the wall: start one child a heat, listen, watch the clock, and end it whatever happens."""
