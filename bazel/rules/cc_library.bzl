"""cc_library: a native.cc_library whose sources begin with precompiled headers.

The headers of the standard library and Abseil take half of the compile time of a source. Sources must
still include what they use: tools/static_analysis compiles them without precompiled headers.
"""

def precompiled(label, copts):
    """What a target needs to use the precompiled_header `label`, which was compiled with `copts`.

    Returns:
      struct(copts, deps), for the target's attributes.
    """
    package, name = label[len("//"):].split(":")
    repository = native.repository_name()[len("@"):]
    root = "$(BINDIR)/external/" + repository if repository else "$(BINDIR)"
    header = "%s/%s/%s.h" % (root, package, name)
    return struct(copts = copts + ["-Winvalid-pch", "-include", header], deps = [label])

# Headers that many files of the product and of the tests include.
COMMON_HEADERS = [
    "algorithm",
    "atomic",
    "functional",
    "map",
    "memory",
    "optional",
    "string",
    "thread",
    "utility",
    "vector",
    "absl/container/flat_hash_map.h",
    "absl/container/flat_hash_set.h",
    "absl/container/inlined_vector.h",
    "absl/functional/function_ref.h",
    "absl/status/status.h",
    "absl/status/statusor.h",
    "absl/strings/match.h",
    "absl/strings/str_cat.h",
    "absl/strings/str_format.h",
    "absl/strings/str_join.h",
    "absl/strings/str_split.h",
    "absl/synchronization/mutex.h",
    "absl/time/time.h",
    "absl/types/span.h",
]

COMMON_HEADERS_DEPS = [
    "@com_google_absl//absl/container:flat_hash_map",
    "@com_google_absl//absl/container:flat_hash_set",
    "@com_google_absl//absl/container:inlined_vector",
    "@com_google_absl//absl/functional:function_ref",
    "@com_google_absl//absl/status",
    "@com_google_absl//absl/status:statusor",
    "@com_google_absl//absl/strings",
    "@com_google_absl//absl/strings:str_format",
    "@com_google_absl//absl/synchronization",
    "@com_google_absl//absl/time",
    "@com_google_absl//absl/types:span",
]

# Fuzzers (tests/fuzz) measure the branch coverage of code that reads and checks their inputs.
# Instrumenting kernels and tests, too, would take the same time again as UBSan.
PRODUCT_COPTS = select({
    "//bazel:asan": ["-fsanitize=fuzzer-no-link"],
    "//conditions:default": [],
})

# Vectorised loops and Eigen need -O3. Sanitizers compile in two thirds of the time without, and the
# optimiser removes fewer errors that they could report. The other flags drop errno and
# floating-point traps, but change no result.
KERNEL_COPTS = ["-fno-math-errno", "-fno-trapping-math"] + select({
    "//bazel:asan": [],
    "//bazel:tsan": [],
    "//conditions:default": ["-O3"],
})

def cc_library(name, srcs = None, deps = [], copts = None, kernels = False, **kwargs):
    """A native.cc_library.

    Args:
      copts: if given, precompiled headers are not used, because they need equal options.
      kernels: whether the library consists of loops over tensors (KERNEL_COPTS).
    """
    if srcs and copts == None:
        headers = (precompiled("//bazel/precompiled:kernels", KERNEL_COPTS) if kernels else
                   precompiled("//bazel/precompiled:product", PRODUCT_COPTS))
        copts = headers.copts
        deps = deps + headers.deps
    native.cc_library(name = name, srcs = srcs, deps = deps, copts = copts, **kwargs)
