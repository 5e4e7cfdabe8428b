"""How results are shown, as pages and lists of text. No file is opened here."""
