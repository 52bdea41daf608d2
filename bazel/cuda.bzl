"""Libraries that nvcc compiles."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")
load("@cuda//:defs.bzl", "HAVE_CUDA")
load("//bazel:kerf.bzl", "kerf_cc_test")

# There is machine code for one of each kind: Turing (T4), Ampere and Ada (A100, A10, L4, L40S), Hopper (H100, H200) and
# both kinds of Blackwell (B200; RTX 50). A GPU runs that of its own major version, up to its minor one.
_MACHINE_CODE = [75, 80, 90, 100, 120]

# What a driver compiles for whatever has none of that.
_PTX = 90

_FLAGS = [
    "-std=c++20",
    "-O3",
] + [
    "-gencode=arch=compute_%d,code=sm_%d" % (kind, kind)
    for kind in _MACHINE_CODE
] + [
    "-gencode=arch=compute_%d,code=compute_%d" % (_PTX, _PTX),
    "--compress-mode=size",
    "-Werror=all-warnings",
    "-Xcompiler=-fPIC,-Wall,-Wextra",
]

def _cuda_library_impl(ctx):
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        cc_toolchain = toolchain,
        ctx = ctx,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    context = cc_common.merge_cc_infos(cc_infos = deps).compilation_context
    objects = []
    ptx_files = []
    for source in ctx.files.srcs:
        object = ctx.actions.declare_file("%s.%s.o" % (ctx.label.name, source.basename))
        ptx = ctx.actions.declare_file("%s.%s.ptx" % (ctx.label.name, source.basename))
        arguments = ctx.actions.args()
        arguments.add_all(_FLAGS)
        arguments.add(toolchain.compiler_executable, format = "-ccbin=%s")
        arguments.add_all(context.defines, format_each = "-D%s")
        arguments.add_all(context.quote_includes, format_each = "-I%s")
        arguments.add_all(context.includes, format_each = "-I%s")
        arguments.add_all(context.system_includes, before_each = "-isystem")
        arguments.add("-c", source)
        arguments.add("-o", object)
        ctx.actions.run_shell(
            arguments = [ctx.executable._nvcc.path, arguments],
            # The names of its own files become part of the object: without --keep they are numbers, others whenever two
            # nvcc meet in /tmp. One of them is the PTX that becomes part of it, too.
            command = 'kept=$(mktemp -d) && trap \'rm -rf "$kept"\' EXIT && "$@" --keep --keep-dir "$kept" && ' +
                      'cp "$kept/%s.compute_%d.ptx" %s' % (source.basename[:-len(".cu")], _PTX, ptx.path),
            # nvcc looks for cicc and ptxas beside itself, and for the programs of the system.
            env = {"PATH": "/usr/bin:/bin"},
            inputs = depset([source], transitive = [
                context.headers,
                toolchain.all_files,
                depset(ctx.files._toolkit),
            ]),
            mnemonic = "CudaCompile",
            outputs = [object, ptx],
            progress_message = "Compiling %s with nvcc" % source.short_path,
            tools = [ctx.executable._nvcc],
        )
        objects.append(object)
        ptx_files.append(ptx)
    linking, _ = cc_common.create_linking_context_from_compilation_outputs(
        actions = ctx.actions,
        cc_toolchain = toolchain,
        compilation_outputs = cc_common.create_compilation_outputs(
            objects = depset(objects),
            pic_objects = depset(objects),
        ),
        disallow_dynamic_library = True,
        feature_configuration = features,
        linking_contexts = [dep.linking_context for dep in deps],
        name = ctx.label.name,
    )
    return [
        CcInfo(compilation_context = context, linking_context = linking),
        DefaultInfo(files = depset(objects)),
        OutputGroupInfo(ptx = depset(ptx_files)),
    ]

_cuda_library = rule(
    implementation = _cuda_library_impl,
    attrs = {
        "srcs": attr.label_list(allow_files = [".cu"]),
        "deps": attr.label_list(providers = [CcInfo]),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
        "_nvcc": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "@cuda//:bin/nvcc",
            executable = True,
        ),
        "_toolkit": attr.label(cfg = "exec", default = "@cuda//:toolkit"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def kerf_cuda_library(name, srcs, deps = [], **kwargs):
    """A library of CUDA sources; its headers are those of deps.

    Without a toolkit it is empty: what needs it asks HAVE_CUDA of @cuda//:defs.bzl.

    Args:
      name: of the target; building it leaves an object file for each source.
      srcs: .cu files.
      deps: C++ libraries whose headers they include.
      **kwargs: as everywhere.
    """
    if HAVE_CUDA:
        _cuda_library(name = name, srcs = srcs, deps = deps + ["@cuda//:runtime"], **kwargs)
    else:
        native.cc_library(name = name, **kwargs)

def _translated_ptx_impl(ctx):
    ptx = ctx.files.ptx
    if not ptx[0].basename.endswith(".ptx"):
        ptx = ctx.attr.ptx[OutputGroupInfo].ptx.to_list()
    if len(ptx) != 1:
        fail("%s has %d sources, not one" % (ctx.attr.ptx.label, len(ptx)))
    made = ctx.actions.declare_file(ctx.label.name + ".cc")
    arguments = ctx.actions.args()
    arguments.add_all([file for file in ctx.files._translator if file.basename == "translate.py"])
    if ctx.attr.option:
        arguments.add("--" + ctx.attr.option)
    arguments.add_all(ptx)
    arguments.add(ctx.attr.symbol)
    arguments.add(made)
    ctx.actions.run_shell(
        arguments = [arguments],
        command = 'python3 -B "$@"',
        env = {"PATH": "/usr/bin:/bin"},
        inputs = ptx + ctx.files._translator,
        mnemonic = "PtxTranslate",
        outputs = [made],
        progress_message = "Translating %s" % ptx[0].short_path,
    )
    return [DefaultInfo(files = depset([made]))]

_translated_ptx = rule(
    implementation = _translated_ptx_impl,
    attrs = {
        "ptx": attr.label(allow_files = True, mandatory = True),
        "symbol": attr.string(mandatory = True),
        "option": attr.string(values = ["", "mutants", "counts"]),
        "_translator": attr.label(default = "//kernels/cuda/ptx/translate"),
    },
)

def kerf_ptx_library(name, ptx, symbol, option = "", tags = [], **kwargs):
    """PTX as C++, for tests.

    Args:
      name: of the target.
      ptx: a kerf_cuda_library of one source, of which there is none without a toolkit, or a file.
      symbol: the ModuleKernels (kernels/cuda/ptx/kernels.h) that it defines.
      option: "mutants": barriers can be left out, and masks changed, when it runs; "counts": it says which instructions
        it comes to.
      tags: as everywhere.
      **kwargs: passed to cc_library.
    """
    _translated_ptx(
        name = name + "_code",
        option = option,
        ptx = ptx,
        symbol = symbol,
        tags = tags,
        testonly = True,
    )
    native.cc_library(
        name = name,
        testonly = True,
        srcs = [name + "_code"],
        # Functions of ten thousand lines, which nobody reads.
        copts = ["-w", "-O1"],
        linkstatic = True,
        tags = tags,
        deps = ["//kernels/cuda/ptx:machine"],
        **kwargs
    )

def kerf_cuda_test(name, **kwargs):
    """A kerf_cc_test of a kerf_cuda_library. There is none without a toolkit.

    It runs where there is a GPU and where there is none, and says what it expects of each.

    Args:
      name: of the target.
      **kwargs: passed to kerf_cc_test.
    """
    if HAVE_CUDA:
        kerf_cc_test(name = name, **kwargs)
