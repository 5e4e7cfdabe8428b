"""What this computer has, found without importing any framework."""
