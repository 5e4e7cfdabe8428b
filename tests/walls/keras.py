"""Found before the framework of this name by `make test-quick`, in which nothing may import one."""

raise ImportError("make test-quick imports no framework")
