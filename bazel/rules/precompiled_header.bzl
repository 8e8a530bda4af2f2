"""precompiled_header compiles system headers once for all sources that begin with them.

A source uses the target PACKAGE:NAME if it depends on it, and is compiled with the same `copts` and
with `-include $(BINDIR)/PACKAGE/NAME.h`. If other options differ, GCC reads the headers as text, and
Clang reports an error.
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
