"""Puts a file of a Debian package inside programs."""

_ASSEMBLY = """    .section .rodata
    .balign 16
    .global {symbol}_begin
    .global {symbol}_size
{symbol}_begin:
    .incbin "external/{name}/content"
{symbol}_end:
    .balign 8
{symbol}_size:
    .quad {symbol}_end - {symbol}_begin
    .section .note.GNU-stack, "", %progbits
"""

def _embedded_file_impl(repository_ctx):
    path = repository_ctx.path(repository_ctx.attr.path)
    if not path.exists:
        fail("%s: there is no %s\nInstall it with: apt-get install %s" % (
            repository_ctx.name,
            repository_ctx.attr.path,
            repository_ctx.attr.apt,
        ))
    repository_ctx.symlink(path, "content")
    repository_ctx.file("content.S", _ASSEMBLY.format(
        name = repository_ctx.name,
        symbol = repository_ctx.attr.symbol,
    ), executable = False)
    repository_ctx.file("BUILD.bazel", """cc_library(
    name = %r,
    srcs = ["content.S"],
    textual_hdrs = ["content"],
    visibility = ["//visibility:public"],
)
""" % repository_ctx.name, executable = False)

embedded_file_repository = repository_rule(
    implementation = _embedded_file_impl,
    configure = True,
    local = True,
    attrs = {
        "path": attr.string(mandatory = True, doc = "of the file"),
        "apt": attr.string(mandatory = True, doc = "the Debian package that brings it"),
        "symbol": attr.string(
            mandatory = True,
            doc = "the bytes are SYMBOL_begin, their number SYMBOL_size",
        ),
    },
)
