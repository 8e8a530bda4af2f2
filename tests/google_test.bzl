"""google_test: a cc_test that uses GoogleTest."""

def google_test(name, deps, size = "small", on_fakes = False, **kwargs):
    """Builds `NAME.cc` as a GoogleTest program.

    With --config=cuda the test links CUDA's libraries, unless `on_fakes` is set.

    The time limit only ends tests that hang: sanitizers and busy machines make a test many times
    slower, so even a small one may take 5 minutes.
    """
    if size == "small":
        kwargs.setdefault("timeout", "moderate")
    native.cc_test(
        name = name,
        size = size,
        srcs = [name + ".cc"],
        deps = deps + ["@com_google_googletest//:gtest_main"] +
               ([] if on_fakes else ["//distribute:gpu_libraries"]),
        **kwargs
    )
