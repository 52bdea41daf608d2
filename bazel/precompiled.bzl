"""Headers of the system that nearly every file reads, parsed once.

Most of the time to compile a file goes into parsing the standard library, Abseil, gRPC and gtest, and with clang's -O0
into instantiating what they declare. Measured, in CPU seconds a file: by clang with the address sanitizer and -O0, 3.3 to
1.4 before and 1.9 to 0.4 with all of them; by gcc with -O2 2.4 to 1.7 before and 1.6 to 0.9 with the standard library and
Abseil (with gRPC too gcc's file is 230 MB, and loading it costs more than parsing). clang's -O1 gains nothing.
"""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _headers(files):
    return [
        CcInfo(compilation_context = cc_common.create_compilation_context(headers = depset(files))),
        DefaultInfo(files = depset(files)),
    ]

def _precompiled_header_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    is_clang = "clang" in toolchain.compiler_executable
    if ctx.attr.unoptimized and not is_clang:
        fail("kerf_unoptimized=1 wants --config=clang")
    header = ctx.actions.declare_file(ctx.label.name + ".h")
    if is_clang and not ctx.attr.unoptimized:
        # Every file includes it, for nothing.
        ctx.actions.write(header, "")
        return _headers([header])
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
    precompiled = ctx.actions.declare_file(ctx.label.name + (".h.pch" if is_clang else ".h.gch"))
    ctx.actions.run_shell(
        arguments = [header.path] + [part.path for part in ctx.files.headers],
        # One after another: a precompiled header remembers where it found what is included of kerf.
        command = 'out=$1; shift; cat "$@" > "$out"',
        inputs = ctx.files.headers,
        outputs = [header],
    )
    arguments = ctx.actions.args()
    arguments.add(precompiled)
    arguments.add(toolchain.compiler_executable)
    arguments.add_all(flags)
    if is_clang:
        # What templates the headers use is instantiated here, and not once more in each file.
        arguments.add("-fpch-instantiate-templates")
    ctx.actions.run_shell(
        arguments = [arguments],
        # Clang gets it by standard input, for it writes down where it was, and that is another place for each action.
        command = 'out=$1; shift; exec "$@" -x c++-header %s -o "$out" < %s' % ("-" if is_clang else header.path, header.path),
        env = {"PATH": "/usr/bin:/bin"},
        inputs = depset([header], transitive = [toolchain.all_files]),
        mnemonic = "CppPrecompile",
        outputs = [precompiled],
        progress_message = "Precompiling %s" % ctx.label.name,
    )
    return _headers([header, precompiled])

precompiled_header = rule(
    implementation = _precompiled_header_impl,
    attrs = {
        "copts": attr.string_list(),
        "headers": attr.label_list(allow_files = [".inc"], mandatory = True),
        "unoptimized": attr.bool(doc = "for -O0, by clang alone"),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
