"""The nouns of the house: frozen, slotted dataclasses; standard library only; no input or output."""
