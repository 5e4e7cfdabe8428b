"""The agent: what `laptime watch` brings into a script that it starts, to see its training.

It runs inside of other people's programs, on Python 3.8 and later, where laptime itself may not be installed. So it
uses the standard library only, prints nothing, raises nothing into the script and starts no thread.
"""
