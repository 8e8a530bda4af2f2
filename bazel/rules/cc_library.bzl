"""cc_library: a native.cc_library that uses precompiled headers.

Parsing the standard library and Abseil takes half of a source's compile time. Sources must still
include what they use; tests/layering checks this.
"""

load("//bazel/rules:precompiled_header.bzl", "use_precompiled_header")

# Headers that many sources and tests include.
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

# Branch coverage for the fuzzers (tests/fuzz). Kernels and google_tests go without: instrumenting
# them would cost as much compile time as UBSan.
PRODUCT_COPTS = select({
    "//bazel:asan": ["-fsanitize=fuzzer-no-link"],
    "//conditions:default": [],
})

# Vectorised loops and Eigen need -O3. Sanitizers stay at -O1, which compiles in two thirds of the
# time and hides fewer errors. The other flags drop errno and floating-point traps, but change no
# result.
KERNEL_COPTS = ["-fno-math-errno", "-fno-trapping-math"] + select({
    "//bazel:asan": [],
    "//bazel:tsan": [],
    "//conditions:default": ["-O3"],
})

def cc_library(name, srcs = None, deps = [], copts = None, kernels = False, **kwargs):
    """A native.cc_library that uses precompiled headers.

    Args:
      copts: replaces the default options; the library then uses no precompiled header.
      kernels: whether to compile with KERNEL_COPTS, for loops over tensors.
    """
    if srcs and copts == None:
        if kernels:
            header = use_precompiled_header("//bazel/precompiled:kernels", KERNEL_COPTS)
        else:
            header = use_precompiled_header("//bazel/precompiled:product", PRODUCT_COPTS)
        copts = header.copts
        deps = deps + header.deps
    native.cc_library(name = name, srcs = srcs, deps = deps, copts = copts, **kwargs)
