"""Where does the time of a script's training go, with the script unchanged?"""
