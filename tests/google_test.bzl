"""google_test: a target of GoogleTest."""

def google_test(name, deps, size = "small", **kwargs):
    """`NAME.cc` as a program of GoogleTest."""
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        deps = deps + ["@com_google_googletest//:gtest_main"],
        **kwargs
    )
