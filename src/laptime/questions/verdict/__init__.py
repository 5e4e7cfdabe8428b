"""`laptime verdict`: is a change faster, and is it still the same training?"""
