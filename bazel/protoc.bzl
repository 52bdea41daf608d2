"""Debian's protoc and gRPC plug-in as the repository com_google_protobuf."""

_WELL_KNOWN = ["any", "duration", "empty", "field_mask", "struct", "timestamp", "wrappers"]

def _protoc_impl(repository_ctx):
    for tool, apt in [
        ("protoc", "protobuf-compiler"),
        ("grpc_cpp_plugin", "protobuf-compiler-grpc"),
    ]:
        path = repository_ctx.which(tool)
        if not path:
            fail("%s is missing. Install it with: apt-get install %s" % (tool, apt))
        repository_ctx.symlink(path, tool)
    build = """package(default_visibility = ["//visibility:public"])
exports_files(["protoc", "grpc_cpp_plugin"])
"""
    for name in _WELL_KNOWN:
        source = "google/protobuf/%s.proto" % name
        repository_ctx.symlink("/usr/include/" + source, source)
        build += "proto_library(name = '%s_proto', srcs = ['%s'])\n" % (name, source)
    repository_ctx.file("BUILD.bazel", build, executable = False)

protoc_repository = repository_rule(
    implementation = _protoc_impl,
    configure = True,
    local = True,
)
