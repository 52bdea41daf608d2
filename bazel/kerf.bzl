"""Macros of every C++ target: warnings, tests and fuzz targets in one place."""

KERF_COPTS = [
    "-Wall",
    "-Wextra",
    "-Werror",
    "-Wshadow",
    "-Wnon-virtual-dtor",
    "-Wold-style-cast",
    "-Woverloaded-virtual",
    "-Wvla",
]

# The headers of the system are parsed already (precompiled.bzl). With --define=kerf_unoptimized=1, which wants clang, what
# is no kernel, which cuts and fingerprints megabytes in each test, is not optimized.
_UNOPTIMIZED_COPTS = ["-O0", "-include", "$(BINDIR)/bazel/unoptimized.h", "-Winvalid-pch"]
_UNOPTIMIZED_DEPS = ["//bazel:unoptimized"]
_LIBRARY_COPTS = select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_COPTS,
    "//conditions:default": ["-include", "$(BINDIR)/bazel/optimized.h", "-Winvalid-pch"],
})
_LIBRARY_DEPS = select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_DEPS,
    "//conditions:default": ["//bazel:optimized"],
})

# Of generated code.
PROTO_COPTS = ["-w"] + select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_COPTS,
    "//conditions:default": [],
})
PROTO_DEPS = select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_DEPS,
    "//conditions:default": [],
})

# Half the time to compile a test went into making it fast, which nobody needs.
_TEST_COPTS = select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_COPTS,
    "//conditions:default": ["-O0"],
})
_TEST_DEPS = select({
    "//bazel:is_unoptimized": _UNOPTIMIZED_DEPS,
    "//conditions:default": [],
})

# In kernels/, but around the kernels: nothing in there sees each byte.
_AROUND_KERNELS = [
    "kernels/cuda/bench",
    "kernels/cuda/check",
    "kernels/cuda/device",
    "kernels/cuda/pipeline",
]

def _is_kernel():
    package = native.package_name()
    return (package + "/").startswith("kernels/") and package not in _AROUND_KERNELS

def _library_copts():
    return [] if _is_kernel() else _LIBRARY_COPTS

def _library_deps():
    return [] if _is_kernel() else _LIBRARY_DEPS

def kerf_cc_library(name, deps = [], copts = [], **kwargs):
    """A library with kerf's warnings.

    Args:
      name: of the target.
      deps: libraries whose headers it includes.
      copts: further compiler flags.
      **kwargs: passed to cc_library.
    """
    native.cc_library(
        name = name,
        copts = KERF_COPTS + _library_copts() + copts,
        linkstatic = True,
        deps = deps + _library_deps(),
        **kwargs
    )

def kerf_cc_binary(name, deps = [], copts = [], **kwargs):
    """A program with kerf's warnings.

    Args:
      name: of the target.
      deps: libraries that it is linked from.
      copts: further compiler flags.
      **kwargs: passed to cc_binary.
    """
    native.cc_binary(
        name = name,
        copts = KERF_COPTS + _library_copts() + copts,
        deps = deps + _library_deps(),
        **kwargs
    )

def kerf_cc_test(name, deps = [], copts = [], size = "small", **kwargs):
    """A gtest test; main comes from //base:test_main, which prints the seed.

    Args:
      name: of the target.
      deps: what it tests.
      copts: further compiler flags.
      size: Bazel's test size.
      **kwargs: passed to cc_test.
    """
    native.cc_test(
        name = name,
        copts = KERF_COPTS + _TEST_COPTS + copts,
        linkstatic = True,
        size = size,
        deps = deps + ["//base:test_main"] + _TEST_DEPS,
        **kwargs
    )

def kerf_cc_fuzz_test(name, srcs, deps = [], corpus = [], **kwargs):
    """A libFuzzer target that is also a test.

    The source defines LLVMFuzzerTestOneInput. `bazel test` runs it with kerf's
    own driver (//base:fuzz_main: the corpus, then seeded mutations of it for
    KERF_FUZZ_SECONDS, 2 by default); `bazel run --config=fuzz` with libFuzzer.

    Args:
      name: of the target.
      srcs: sources.
      deps: what it fuzzes.
      corpus: files to begin with.
      **kwargs: passed to cc_test.
    """
    native.cc_test(
        name = name,
        srcs = srcs,
        args = ["$(locations %s)" % label for label in corpus],
        copts = KERF_COPTS + _library_copts(),
        data = corpus,
        linkopts = select({
            "//base:fuzz_build": ["-fsanitize=fuzzer"],
            "//conditions:default": [],
        }),
        linkstatic = True,
        size = "small",
        tags = ["fuzz"],
        deps = deps + _library_deps() + select({
            "//base:fuzz_build": [],
            "//conditions:default": ["//base:fuzz_main"],
        }),
        **kwargs
    )

def kerf_cc_bench(name, deps = [], **kwargs):
    """A Google Benchmark program; built with all the rest, run by hand.

    Args:
      name: of the target.
      deps: what it measures.
      **kwargs: passed to cc_binary.
    """
    native.cc_binary(
        name = name,
        copts = KERF_COPTS,
        deps = deps + ["@benchmark"],
        **kwargs
    )
