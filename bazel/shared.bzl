"""A shared library of code that is otherwise linked into programs.

Nothing else of kerf is compiled with -fPIC (.bazelrc), and Debian's archives of Abseil and RE2 are not: there a shared
library takes theirs (pkg_config.bzl). So what is in it is compiled once more, in a configuration of its own.
"""

def _shared_flag_impl(_ctx):
    return []

shared_flag = rule(
    implementation = _shared_flag_impl,
    build_setting = config.bool(),
)

def _for_shared_impl(settings, _attr):
    return {
        "//bazel:for_shared_library": True,
        "//command_line_option:copt": settings["//command_line_option:copt"] + ["-fPIC"],
    }

_for_shared = transition(
    implementation = _for_shared_impl,
    inputs = ["//command_line_option:copt"],
    outputs = [
        "//bazel:for_shared_library",
        "//command_line_option:copt",
    ],
)

def _shared_library_impl(ctx):
    output = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.run_shell(
        arguments = [ctx.files.binary[0].path, output.path],
        command = 'cp -f "$1" "$2"',
        inputs = ctx.files.binary,
        outputs = [output],
    )
    return [DefaultInfo(files = depset([output]))]

shared_library = rule(
    implementation = _shared_library_impl,
    attrs = {
        "binary": attr.label(
            cfg = _for_shared,
            doc = "a cc_binary with linkshared, which nobody builds but through this",
            mandatory = True,
        ),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
