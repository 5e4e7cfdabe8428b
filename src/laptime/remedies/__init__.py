"""What a user's own script can take to go faster: remedies that are code, light enough to be imported anywhere."""
