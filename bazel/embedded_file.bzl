"""Puts files of this repository inside programs."""

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
