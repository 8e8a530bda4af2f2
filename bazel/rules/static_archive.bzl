"""static_archive puts the objects of libraries and of their dependencies into one archive.

All objects are position-independent, so that a shared library can be linked from the archive.
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _static_archive_impl(ctx):
    objects = []
    flags = []
    for dep in ctx.attr.deps:
        for input in dep[CcInfo].linking_context.linker_inputs.to_list():
            flags.extend(input.user_link_flags)
            for library in input.libraries:
                objects.extend(library.pic_objects or library.objects)

    archive = ctx.actions.declare_file("lib%s.a" % ctx.label.name)
    args = ctx.actions.args()
    args.add("qcsD", archive)
    args.add_all(objects, uniquify = True)
    args.use_param_file("@%s", use_always = True)
    args.set_param_file_format("multiline")
    ctx.actions.run(
        executable = find_cpp_toolchain(ctx).ar_executable,
        arguments = [args],
        inputs = objects,
        outputs = [archive],
        mnemonic = "StaticArchive",
        progress_message = "Archiving %{label}",
    )

    # The flags are in the order of their first use. A linker may need a library after all others
    # that use it; the program that reads this file has to arrange that.
    flags_file = ctx.actions.declare_file(ctx.label.name + ".link_flags")
    ctx.actions.write(flags_file, "".join([f + "\n" for f in {f: None for f in flags}]))
    return [DefaultInfo(files = depset([archive, flags_file]))]

static_archive = rule(
    implementation = _static_archive_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    incompatible_use_toolchain_transition = True,
    doc = "Makes lib<name>.a, and <name>.link_flags with one linker flag per line.",
)
