"""The parent's side: start one child per heat, read its messages, watch the clock, and end it whatever happens."""
