"""What do 2, 4, 8 devices bring, and why not 2, 4, 8 times as much?"""
