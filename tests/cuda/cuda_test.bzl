"""cuda_test: a GoogleTest program that needs the headers of CUDA but no GPU."""

load("//bazel/rules:cuda.bzl", "if_cuda")
load("//tests:google_test.bzl", "google_test")

NEEDS_CUDA = if_cuda([], ["//bazel:needs_cuda"])

# Attributes of tests that run kernels on the fakes and compare them with the CPU kernels.
KERNEL_DEPS = [
    "//kernels/cuda/device:cuda_device",
    "//tests/fakes/cuda:fake_cuda",
    "//ops",
    "//tests/support:cpu_and_gpu_kernels",
    "//tests/support:run_on_device",
]

def cuda_test(name, on_fakes = True, **kwargs):
    """Builds `NAME.cc`, which runs on the fakes of CUDA's libraries unless `on_fakes` is False."""
    google_test(
        name = name,
        on_fakes = on_fakes,
        target_compatible_with = NEEDS_CUDA,
        **kwargs
    )

def real_cudnn_test(of, **kwargs):
    """Builds `of`.cc again, as real_`of`, with the real cuDNN."""
    native.cc_test(
        name = "real_" + of,
        srcs = [of + ".cc"],
        target_compatible_with = NEEDS_CUDA,
        deps = [
            ":described_gpu",
            "//distribute:gpu_libraries",
            "//kernels/cuda/libraries:cudnn",
            "//tests/support:is_error",
            "@com_google_googletest//:gtest_main",
        ],
        **kwargs
    )
