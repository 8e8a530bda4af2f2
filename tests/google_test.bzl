"""google_test: a cc_test that uses GoogleTest."""

def google_test(name, deps, size = "small", on_fakes = False, **kwargs):
    """Builds `NAME.cc` as a GoogleTest program.

    With --config=cuda the test links CUDA's libraries, unless `on_fakes` is set.
    """
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        deps = deps + ["@com_google_googletest//:gtest_main"] +
               ([] if on_fakes else ["//distribute:gpu_libraries"]),
        **kwargs
    )
