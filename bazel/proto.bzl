"""C++ and gRPC code from a native proto_library, by Debian's protoc.

Kerf's own protos belong to the package //proto and import each other relative to it (strip_import_prefix =
"/proto"); C++ includes them the same way: "kerf/v1/chunking.pb.h". What is generated lies in the package that
asks for it, so that also protos of others can be asked for.
"""

load("//bazel:kerf.bzl", "PROTO_COPTS", "PROTO_DEPS")

def _cc_proto_sources_impl(ctx):
    info = ctx.attr.proto[ProtoInfo]
    sources, headers = [], []
    for proto in info.direct_sources:
        # As others import it.
        stem = proto.path[len(info.proto_source_root) + 1:-len(".proto")]
        sources.append(ctx.actions.declare_file(stem + ".pb.cc"))
        headers.append(ctx.actions.declare_file(stem + ".pb.h"))
        if ctx.attr.grpc:
            sources.append(ctx.actions.declare_file(stem + ".grpc.pb.cc"))
            headers.append(ctx.actions.declare_file(stem + ".grpc.pb.h"))

    arguments = ctx.actions.args()
    arguments.add_all(info.transitive_proto_path, before_each = "-I")
    root = ctx.bin_dir.path + "/" + ctx.label.package
    arguments.add("--cpp_out=" + ("lite:" if ctx.attr.lite else "") + root)
    if ctx.attr.grpc:
        arguments.add("--plugin=protoc-gen-grpc=" + ctx.executable._grpc_plugin.path)
        arguments.add("--grpc_out=" + root)
    arguments.add_all(info.direct_sources)
    ctx.actions.run(
        arguments = [arguments],
        executable = ctx.executable._protoc,
        inputs = info.transitive_sources,
        mnemonic = "KerfProtoc",
        outputs = sources + headers,
        tools = [ctx.executable._grpc_plugin],
    )
    return [
        DefaultInfo(files = depset(sources + headers)),
        OutputGroupInfo(hdrs = depset(headers), srcs = depset(sources)),
    ]

_cc_proto_sources = rule(
    implementation = _cc_proto_sources_impl,
    attrs = {
        "proto": attr.label(mandatory = True, providers = [ProtoInfo]),
        "grpc": attr.bool(),
        "lite": attr.bool(doc = "without descriptors, of which a process has one registry"),
        "_protoc": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "@com_google_protobuf//:protoc",
            executable = True,
        ),
        "_grpc_plugin": attr.label(
            allow_single_file = True,
            cfg = "exec",
            default = "@com_google_protobuf//:grpc_cpp_plugin",
            executable = True,
        ),
    },
)

def kerf_cc_proto_library(name, proto, grpc = False, deps = [], visibility = None):
    """A cc_library of the generated code.

    Args:
      name: of the library.
      proto: the proto_library.
      grpc: also make the service stubs.
      deps: the same for the protos that this one imports.
      visibility: as everywhere.
    """
    _cc_proto_sources(
        name = name + "_sources",
        grpc = grpc,
        # A program that loads libkerf may have these messages of its own.
        lite = select({
            "//bazel:is_library": True,
            "//conditions:default": False,
        }),
        proto = proto,
    )
    native.filegroup(
        name = name + "_srcs",
        srcs = [name + "_sources"],
        output_group = "srcs",
    )
    native.filegroup(
        name = name + "_hdrs",
        srcs = [name + "_sources"],
        output_group = "hdrs",
    )
    native.cc_library(
        name = name,
        srcs = [name + "_srcs"],
        hdrs = [name + "_hdrs"],
        copts = PROTO_COPTS,
        includes = ["."],
        linkstatic = True,
        tags = ["no-tidy"],
        visibility = visibility,
        deps = deps + (["@grpc"] if grpc else ["@protobuf"]) + PROTO_DEPS,
    )
