"""Finds a system library through pkg-config and makes a cc_library of it."""

def _run(repository_ctx, arguments):
    result = repository_ctx.execute(arguments)
    if result.return_code != 0:
        fail("%s: %s\nInstall it with: apt-get install %s" % (
            repository_ctx.name,
            result.stderr,
            repository_ctx.attr.apt,
        ))
    return result.stdout.strip()

def _unique(values):
    seen = {}
    for value in values:
        seen[value] = True
    return seen.keys()

# So it is on every system of 64 bits, and who says it can use no header that was precompiled without (precompiled.bzl).
_LARGE_FILES = "-D_FILE_OFFSET_BITS=64"

def _sum_of_archives(repository_ctx, libs):
    """A flag that changes with what the archives hold, and changes nothing else: a folder that is not there.

    Bazel does not look into archives that are named by -l. Without it, programs with the old ones within would be taken
    for new, also from a cache, after Debian has mended something.
    """
    names = [flag[2:] for flag in libs if flag.startswith("-l")]
    command = """
    for name; do
      archive=$(gcc -print-file-name="lib$name.a")
      [ ! -f "$archive" ] || cat "$archive"
    done | sha256sum | cut -c -32"""
    return "-L/linked-with/" + _run(repository_ctx, ["/bin/sh", "-c", command, "-"] + names)

# Parts of libc: never linked statically.
_LIBC_FLAGS = ["-lpthread", "-pthread", "-ldl", "-lm", "-lrt"]

def _static(repository_ctx, flags):
    """What links the archives."""
    return (
        ["-Wl,-Bstatic", "-Wl,--start-group"] +
        [flag for flag in flags if flag not in _LIBC_FLAGS] +
        ["-Wl,--end-group", "-Wl,-Bdynamic"] + _LIBC_FLAGS +
        [_sum_of_archives(repository_ctx, flags)]
    )

def _within_library(repository_ctx, flags):
    """What links a shared library: the archives that may be part of one, and of all others the shared libraries."""
    inside = ["-l" + name for name in repository_ctx.attr.relocatable]
    return (
        (_static(repository_ctx, inside) if inside else []) +
        ["-Wl,--push-state", "-Wl,--as-needed"] +
        [flag for flag in flags if flag.startswith("-l") and flag not in inside] +
        ["-Wl,--pop-state"]
    )

def _pkg_config_impl(repository_ctx):
    pkg_config = repository_ctx.which("pkg-config")
    if not pkg_config:
        fail("pkg-config is missing. Install it with: apt-get install pkg-config")
    modules = repository_ctx.attr.modules
    for module in modules:
        _run(repository_ctx, [pkg_config, "--modversion", module])
    static = ["--static"] if repository_ctx.attr.static else []
    cflags = _run(repository_ctx, [pkg_config, "--cflags"] + modules).split(" ")
    libs = _run(repository_ctx, [pkg_config] + static + ["--libs"] + modules).split(" ")

    includes = []
    defines = list(repository_ctx.attr.defines)
    for index, flag in enumerate(cflags):
        if flag.startswith("-I"):
            repository_ctx.symlink(flag[2:], "include%d" % index)
            includes.append("include%d" % index)
        elif flag.startswith("-D") and flag != _LARGE_FILES and not repository_ctx.attr.header_only:
            defines.append(flag[2:])

    linkopts = []
    shared = []
    if not repository_ctx.attr.header_only:
        linkopts = _unique(repository_ctx.attr.extra_libs + [flag for flag in libs if flag])
        if repository_ctx.attr.static:
            shared = _within_library(repository_ctx, linkopts)
            linkopts = _static(repository_ctx, linkopts)

    repository_ctx.file("BUILD.bazel", """cc_library(
    name = %r,
    hdrs = glob(%r, allow_empty = True),
    includes = %r,
    defines = %r,
    linkopts = %s,
    visibility = ["//visibility:public"],
)
""" % (
        repository_ctx.name,
        [directory + "/**" for directory in includes],
        includes,
        _unique(defines),
        "select({'@kerf//bazel:is_library': %r, '//conditions:default': %r})" % (shared, linkopts) if shared else repr(linkopts),
    ), executable = False)

pkg_config_repository = repository_rule(
    implementation = _pkg_config_impl,
    configure = True,
    local = True,
    environ = ["PKG_CONFIG_PATH"],
    attrs = {
        "modules": attr.string_list(mandatory = True, doc = "pkg-config module names"),
        "apt": attr.string(mandatory = True, doc = "the Debian package that brings them"),
        "defines": attr.string_list(),
        "extra_libs": attr.string_list(doc = "libraries that have no .pc file of their own"),
        "relocatable": attr.string_list(doc = "of the static archives, those that can be, and are, part of libkerf.so"),
        "static": attr.bool(doc = "link the static archives; for libkerf.so, but for those, the shared libraries"),
        "header_only": attr.bool(doc = "take the headers, link nothing"),
    },
)
