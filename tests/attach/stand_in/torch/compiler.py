"""torch.compiler"""


def is_compiling():
    return False
