"""Figures as files: one HTML page, SVG, Markdown, CSV. The numbers come from a record; nothing is computed here."""
