"""google_test: a cc_test that uses GoogleTest."""

load("//bazel/rules:precompiled_header.bzl", "use_precompiled_header")

# A test takes longer to compile than to run: with -Og it compiles a sixth faster than with -O1. Under
# ASan, it compiles twice as fast with -O0; UBSan is for the code under test.
TEST_COPTS = select({
    "//bazel:asan": ["-O0", "-fno-sanitize=undefined"],
    "//conditions:default": ["-Og"],
})

def google_test(name, deps, srcs = None, size = "small", copts = None, on_fakes = False, **kwargs):
    """Builds `NAME.cc`, or `srcs`, as a GoogleTest program.

    With --config=cuda the test links CUDA's libraries, unless `on_fakes` is set.

    By default, a test is compiled with TEST_COPTS, and begins with the headers of
    //tests:precompiled. `copts` replaces both.

    The time limit only ends tests that hang: sanitizers and busy machines make a test many times
    slower, so even a small one may take 5 minutes.
    """
    if size == "small":
        kwargs.setdefault("timeout", "moderate")
    if copts == None:
        header = use_precompiled_header("//tests:precompiled", TEST_COPTS)
        copts = header.copts
        deps = deps + header.deps
    native.cc_test(
        name = name,
        size = size,
        srcs = srcs or [name + ".cc"],
        copts = copts,
        deps = deps + ["@com_google_googletest//:gtest_main"] +
               ([] if on_fakes else ["//distribute:gpu_libraries"]),
        **kwargs
    )
