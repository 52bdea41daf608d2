"""Headers of the system that nearly every file reads, parsed once, for what is compiled by clang with -O0.

Most of the time to compile a file went into parsing the standard library, Abseil, gRPC and gtest, and into instantiating
what they declare: of seven files measured with the address sanitizer, the whole took 3.3 to 1.4 CPU seconds, and with
this 1.9 to 0.4. With -O1 nothing is gained, and by gcc less than its precompiled header costs, which is 260 MB.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        cc_toolchain = toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        action_name = CPP_COMPILE_ACTION_NAME,
        feature_configuration = features,
        variables = cc_common.create_compile_variables(
            cc_toolchain = toolchain,
            feature_configuration = features,
            user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts,
        ),
    )
    if "clang" not in toolchain.compiler_executable:
        fail("kerf_unoptimized=1 wants --config=clang")
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    precompiled = ctx.actions.declare_file(ctx.label.name + ".h.pch")
    ctx.actions.expand_template(template = ctx.file.header, output = header, substitutions = {})
    arguments = ctx.actions.args()
    arguments.add(precompiled)
    arguments.add(toolchain.compiler_executable)
    arguments.add_all(flags)

    # What templates the headers use is instantiated here, and not once more in each file.
    arguments.add("-fpch-instantiate-templates")
    ctx.actions.run_shell(
        arguments = [arguments],
        # By standard input: clang writes down where the header was, and that is another place for each action.
        command = 'out=$1; shift; exec "$@" -x c++-header - -o "$out" < ' + header.path,
        env = {"PATH": "/usr/bin:/bin"},
        inputs = depset([header], transitive = [toolchain.all_files]),
        mnemonic = "CppPrecompile",
        outputs = [precompiled],
        progress_message = "Precompiling %s" % ctx.file.header.short_path,
    )
    return [
        CcInfo(compilation_context = cc_common.create_compilation_context(
            headers = depset([header, precompiled]),
        )),
        DefaultInfo(files = depset([header, precompiled])),
    ]

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
