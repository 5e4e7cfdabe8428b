"""How long does an answer take, and how many are there per second?"""
