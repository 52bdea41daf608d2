"""Puts files inside programs: of a Debian package, or of this repository."""

_ASSEMBLY = """    .section .rodata
    .balign 16
    .global {symbol}_begin
    .global {symbol}_size
{symbol}_begin:
    .incbin "{path}"
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
        path = "external/%s/content" % repository_ctx.name,
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

def _embedding_assembly_impl(ctx):
    assembly = ctx.actions.declare_file(ctx.label.name + ".S")
    ctx.actions.write(assembly, _ASSEMBLY.format(
        path = ctx.file.file.path,
        symbol = ctx.attr.symbol,
    ))
    return [DefaultInfo(files = depset([assembly]))]

_embedding_assembly = rule(
    implementation = _embedding_assembly_impl,
    attrs = {
        "file": attr.label(allow_single_file = True, mandatory = True),
        "symbol": attr.string(mandatory = True),
    },
)

def kerf_embedded_file(name, file, symbol):
    """A library that is a file's bytes.

    Args:
      name: of the target.
      file: its label.
      symbol: the bytes are SYMBOL_begin, their number SYMBOL_size.
    """
    _embedding_assembly(
        name = name + "_assembly",
        file = file,
        symbol = symbol,
    )
    native.cc_library(
        name = name,
        srcs = [name + "_assembly"],
        textual_hdrs = [file],
    )
