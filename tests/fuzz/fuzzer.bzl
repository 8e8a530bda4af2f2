"""fuzzer: a libFuzzer target."""

def fuzzer(name, deps):
    """Builds `NAME_fuzzer.cc` with libFuzzer. Needs --config=asan, so //... does not include it."""
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + "_fuzzer.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
