"""clang-tidy over kerf's own C++ sources: an aspect, used by tools/tidy."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "CPP_COMPILE_ACTION_NAME")
load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _flags(ctx, context):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        cc_toolchain = toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_compile_variables(
        cc_toolchain = toolchain,
        feature_configuration = features,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts,
    )
    flags = cc_common.get_memory_inefficient_command_line(
        action_name = CPP_COMPILE_ACTION_NAME,
        feature_configuration = features,
        variables = variables,
    )
    flags = list(flags)
    for define in context.defines.to_list() + context.local_defines.to_list():
        flags.append("-D" + define)
    for path in context.includes.to_list():
        flags.append("-I" + path)
    for path in context.quote_includes.to_list():
        flags.extend(["-iquote", path])
    for path in context.system_includes.to_list():
        flags.extend(["-isystem", path])
    return flags, toolchain

def _clang_tidy_impl(target, ctx):
    if CcInfo not in target or not hasattr(ctx.rule.attr, "srcs"):
        return []
    if target.label.workspace_root or "no-tidy" in ctx.rule.attr.tags:
        return []
    context = target[CcInfo].compilation_context
    flags, toolchain = _flags(ctx, context)
    reports = []
    for source_target in ctx.rule.attr.srcs:
        for source in source_target.files.to_list():
            if not source.is_source or source.extension != "cc":
                continue
            report = ctx.actions.declare_file("%s.%s.tidy" % (target.label.name, source.basename))
            arguments = ctx.actions.args()
            arguments.add(report)
            arguments.add(source)
            arguments.add("--")
            arguments.add_all(flags)
            ctx.actions.run(
                arguments = [arguments],
                env = {"KERF_CLANG_TIDY": ctx.var.get("kerf_clang_tidy", "")},
                executable = ctx.executable._runner,
                inputs = depset(
                    [source, ctx.file._config],
                    transitive = [context.headers, toolchain.all_files],
                ),
                mnemonic = "ClangTidy",
                outputs = [report],
                progress_message = "clang-tidy %s" % source.short_path,
            )
            reports.append(report)
    return [OutputGroupInfo(tidy = depset(reports))]

clang_tidy = aspect(
    implementation = _clang_tidy_impl,
    attrs = {
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_config": attr.label(allow_single_file = True, default = "//:.clang-tidy"),
        "_runner": attr.label(cfg = "exec", default = "//bazel:run_clang_tidy", executable = True),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)
