"""The room of steps that are plain Python functions, in whatever framework; it imports none."""
