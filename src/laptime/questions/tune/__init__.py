"""Which settings are best on each lane, and what do they gain?"""
