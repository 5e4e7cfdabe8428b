"""No script of the table needs one of torchvision's networks."""
