"""Everything that can be asked is a choice of lanes and a way to read their samples; one small file a question."""
