"""Draw the items of made data: each from its own number alone, so that it is the same however many are made."""
