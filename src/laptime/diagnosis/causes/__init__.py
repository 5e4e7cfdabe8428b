"""Why a lane is slow: fifteen causes, each judged by a plain function over what was measured so far."""
