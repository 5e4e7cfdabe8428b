"""Where does the time go, what limits it, and what would gain?"""
