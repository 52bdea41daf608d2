"""Protos of others, from Debian's package of them."""

def _protos_impl(repository_ctx):
    build = "package(default_visibility = [\"//visibility:public\"])\n"
    for name, source in repository_ctx.attr.protos.items():
        path = repository_ctx.path(repository_ctx.attr.root + "/" + source)
        if not path.exists:
            fail("%s is missing. Install it with: apt-get install %s" % (path, repository_ctx.attr.apt))
        repository_ctx.symlink(path, source)
        build += "proto_library(name = '%s', srcs = ['%s'])\n" % (name, source)
    repository_ctx.file("BUILD.bazel", build, executable = False)

system_protos_repository = repository_rule(
    implementation = _protos_impl,
    configure = True,
    local = True,
    attrs = {
        "apt": attr.string(mandatory = True, doc = "The Debian package."),
        "protos": attr.string_dict(mandatory = True, doc = "Names of targets, and where each is imported from."),
        "root": attr.string(mandatory = True, doc = "Where imports begin."),
    },
)
