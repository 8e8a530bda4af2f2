"""google_test: a target of GoogleTest."""

def google_test(name, deps, size = "small", on_doubles = False, **kwargs):
    """`NAME.cc` as a program of GoogleTest.

    With --config=cuda it links CUDA's libraries, unless it is `on_doubles`.
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        deps = deps + ["@com_google_googletest//:gtest_main"] +
               ([] if on_doubles else ["//distribute:gpu_libraries"]),
        **kwargs
    )
