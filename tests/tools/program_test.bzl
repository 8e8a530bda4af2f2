"""program_test: a Python test that runs our programs."""

def program_test(name, size = "medium", data = [], tags = []):
    """Runs `NAME.py`, which imports programs.py and the files in `data`.

    The test is an sh_test, because Debian's Bazel cannot start py_tests (../layering/BUILD).
    Sanitizers do not run it: mirrorflow replaces malloc to count its allocations, and most of these
    tests limit time or memory.
    """
    native.sh_test(
        name = name,
        size = size,
        srcs = [name + ".py"],
        data = [
            "programs.py",
            "//tools:fashion_mnist",
            "//tools:mirrorflow",
        ] + data,
        tags = ["noasan", "notsan"] + tags,
    )
