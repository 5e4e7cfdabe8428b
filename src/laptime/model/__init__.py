"""The data types that all rooms share: frozen, slotted dataclasses; standard library only; no input or output."""
