"""header_files provides the headers of libraries as files.

Includes all headers from this workspace that these headers include, but no precompiled headers.
"""

def _header_files_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset([
        h
        for h in depset(transitive = [c.headers for c in contexts]).to_list()
        if not h.dirname.endswith("bazel/precompiled")
    ])
    return [DefaultInfo(files = headers, runfiles = ctx.runfiles(transitive_files = headers))]

header_files = rule(
    implementation = _header_files_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    doc = "The headers of `deps` and of their dependencies, for tests that read or compile them.",
)
