"""fuzzer: a target of libFuzzer."""

def fuzzer(name, deps):
    """`NAME_fuzzer.cc` as a program of libFuzzer; it needs --config=asan, so //... has it not."""
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + "_fuzzer.cc"],
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = deps,
    )
