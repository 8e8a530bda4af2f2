"""External repositories, all taken from the local machine."""

load("//bazel/stubs:stubs.bzl", "coverage_stub", "rules_cc_stub")
load("//third_party/sys:cuda_configure.bzl", "cuda_configure")
load("//third_party/sys:sys.bzl", "pkg_config_repo")

_EIGEN = """
cc_library(
    name = "eigen3",
    # One directory symlink instead of 500 header symlinks per sandbox.
    textual_hdrs = ["include"],
    includes = ["include"],
)
"""

_PROTOBUF = """
_WKT = ["any", "descriptor", "duration", "empty", "struct", "timestamp", "wrappers"]

cc_library(
    name = "protobuf",
    linkopts = ["-lprotobuf", "-lpthread"],
)

filegroup(name = "protoc", srcs = ["protoc_bin"])

# The toolchain that the native cc_proto_library rule requires.
proto_lang_toolchain(
    name = "cc_toolchain",
    command_line = "--cpp_out=$(OUT)",
    runtime = ":protobuf",
    # libprotobuf contains their C++ code, so it is not generated again.
    blacklisted_protos = [n + "_proto" for n in _WKT],
)

[proto_library(
    name = n + "_proto",
    srcs = ["include/google/protobuf/%s.proto" % n],
    strip_import_prefix = "include",
) for n in _WKT]
"""

_GRPC = """
filegroup(name = "grpc_cpp_plugin", srcs = ["grpc_cpp_plugin_bin"])
"""

def mirrorflow_workspace():
    # Bazel 4.2.3 would download these three; `maybe()` in its WORKSPACE
    # suffix gives ours precedence.  (rules_proto is needed only by BUILD
    # files that load() it; the native proto rules work without it.)
    rules_cc_stub(name = "rules_cc")
    coverage_stub(name = "remote_coverage_tools")
    native.local_repository(name = "rules_java", path = "/usr/share/bazel/rules/java")

    pkg_config_repo(
        name = "com_google_absl",
        apt = "libabsl-dev",
        targets = {
            "absl/base:core_headers": "absl_core_headers",
            "absl/base:log_severity": "absl_log_severity",
            "absl/cleanup:cleanup": "absl_cleanup",
            "absl/container:flat_hash_map": "absl_flat_hash_map",
            "absl/container:flat_hash_set": "absl_flat_hash_set",
            "absl/container:inlined_vector": "absl_inlined_vector",
            "absl/debugging:symbolize": "absl_symbolize",
            "absl/flags:flag": "absl_flags",
            "absl/flags:reflection": "absl_flags_reflection",
            "absl/functional:function_ref": "absl_function_ref",
            "absl/hash:hash": "absl_hash",
            "absl/memory:memory": "absl_memory",
            "absl/status:status": "absl_status",
            "absl/status:statusor": "absl_statusor",
            "absl/strings:str_format": "absl_str_format",
            "absl/strings:strings": "absl_strings",
            "absl/synchronization:synchronization": "absl_synchronization",
            "absl/time:time": "absl_time",
            "absl/types:span": "absl_span",
        },
    )
    pkg_config_repo(
        name = "com_google_googletest",
        apt = "libgtest-dev libgmock-dev",
        targets = {":gtest": "gtest gmock", ":gtest_main": "gtest_main gtest gmock"},
    )
    pkg_config_repo(
        name = "com_github_google_benchmark",
        apt = "libbenchmark-dev",
        targets = {":benchmark": "benchmark"},
    )
    pkg_config_repo(
        name = "eigen_archive",
        apt = "libeigen3-dev",
        symlinks = {"include": "/usr/include/eigen3"},
        extra_build = [_EIGEN],
    )
    pkg_config_repo(
        name = "com_google_protobuf",
        apt = "libprotobuf-dev protobuf-compiler",
        symlinks = {
            "protoc_bin": "/usr/bin/protoc",
            "include/google/protobuf": "/usr/include/google/protobuf",
        },
        extra_build = [_PROTOBUF],
    )
    pkg_config_repo(
        name = "com_github_grpc_grpc",
        apt = "libgrpc++-dev protobuf-compiler-grpc",
        targets = {":grpc++": "grpc++"},
        # Fixes floods of headers (CVE-2023-33953) and of stream resets (CVE-2023-44487).
        safe_since = {"grpc++": "1.56.3"},
        symlinks = {"grpc_cpp_plugin_bin": "/usr/bin/grpc_cpp_plugin"},
        extra_build = [_GRPC],
    )
    pkg_config_repo(
        name = "openssl",
        apt = "libssl-dev",
        targets = {":crypto": "libcrypto", ":ssl": "-lssl -lcrypto"},
    )
    pkg_config_repo(name = "libjpeg", apt = "libjpeg62-turbo-dev", targets = {":libjpeg": "libjpeg"})
    pkg_config_repo(name = "libpng", apt = "libpng-dev", targets = {":libpng": "libpng"})
    pkg_config_repo(name = "zlib", apt = "zlib1g-dev", targets = {":zlib": "zlib"})
    pkg_config_repo(
        name = "nlohmann_json",
        apt = "nlohmann-json3-dev",
        targets = {":json": "nlohmann_json"},
    )
    pkg_config_repo(name = "onednn", apt = "libdnnl-dev", targets = {":onednn": "-ldnnl -lgomp"})
    pkg_config_repo(name = "isal", apt = "libisal-dev", targets = {":isal": "libisal"})

    cuda_configure(name = "local_cuda")
