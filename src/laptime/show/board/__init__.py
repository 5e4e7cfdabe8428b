"""The board: rows that anyone may add from a record, what refuses a row, and the static pages made of them."""
