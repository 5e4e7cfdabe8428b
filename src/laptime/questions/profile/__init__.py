"""Which operators take the time of a step?"""
