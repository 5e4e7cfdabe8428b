"""How long does a whole training take, and what does it learn?"""
