"""precompiled_header compiles system headers once for all sources that begin with them.

A target uses it through use_precompiled_header, and compiles with the same options. If others differ,
such as -fPIC or those of --per_file_copt, GCC warns and reads the headers as text, and Clang fails.
GCC's output is not reproducible, so clones share objects only through the disk cache.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    includes = cc_common.merge_cc_infos(
        cc_infos = [dep[CcInfo] for dep in ctx.attr.deps],
    ).compilation_context

    # Compilers look for NAME.h.gch beside NAME.h.
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    precompiled = ctx.actions.declare_file(ctx.label.name + ".h.gch")
    ctx.actions.write(header, "".join(["#include \"%s\"\n" % h for h in ctx.attr.headers]))

    # Clang records the absolute path of the file that it precompiles, and other actions could not
    # find a file of this action's sandbox. So that file is a system header that every source
    # includes, and options include the headers.
    flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts
    for h in ctx.attr.headers:
        flags = flags + ["-include", h]
    command = cc_common.get_memory_inefficient_command_line(
        feature_configuration = features,
        action_name = CPP_COMPILE_ACTION_NAME,
        variables = cc_common.create_compile_variables(
            feature_configuration = features,
            cc_toolchain = toolchain,
            user_compile_flags = flags + ["-x", "c++-header"],
            source_file = "/usr/include/stdc-predef.h",
            output_file = precompiled.path,
            use_pic = True,
            quote_include_directories = includes.quote_includes,
            include_directories = includes.includes,
            system_include_directories = includes.system_includes,
            preprocessor_defines = includes.defines,
        ),
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(
            feature_configuration = features,
            action_name = CPP_COMPILE_ACTION_NAME,
        ),
        arguments = command,
        inputs = depset(transitive = [includes.headers, toolchain.all_files]),
        outputs = [precompiled],
        mnemonic = "PrecompileHeader",
        progress_message = "Precompiling %s" % header.short_path,
    )

    # GCC requires that sources define the macros that the headers were compiled with.
    return [CcInfo(compilation_context = cc_common.create_compilation_context(
        headers = depset([header, precompiled]),
        defines = includes.defines,
    ))]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "headers": attr.string_list(mandatory = True, doc = "As in an #include."),
        "deps": attr.label_list(providers = [CcInfo], doc = "The libraries of the headers."),
        "copts": attr.string_list(),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
    fragments = ["cpp"],
    incompatible_use_toolchain_transition = True,
)

def use_precompiled_header(label, copts):
    """Returns the attributes of a target that uses the precompiled_header `label`.

    Other workspaces choose their own options, so there the target reads its headers as text.

    Args:
      label: `//PACKAGE:NAME`.
      copts: the options of `label`.
    Returns:
      struct(copts, deps).
    """
    if native.repository_name() != "@":
        return struct(copts = copts, deps = [])
    header = "$(BINDIR)/%s.h" % label[len("//"):].replace(":", "/")
    return struct(copts = copts + ["-Winvalid-pch", "-include", header], deps = [label])
