"""Records for other programs: tables, benchmark files, and runs of experiment trackers."""
