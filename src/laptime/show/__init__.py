"""What a person sees: text, figures, reports, and the pages of the board."""
