"""Records as figures: every number that a report shows, and no drawing. A question names its own in its row."""
