"""Why a device that is here is not used: one cause for each, and the command that mends it."""
