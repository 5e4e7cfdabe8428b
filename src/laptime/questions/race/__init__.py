"""Which lane is faster, by how much, and did they learn the same?"""
