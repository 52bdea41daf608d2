"""Finds nvcc and the CUDA runtime: the repository @cuda.

In this order: $CUDA_HOME, /usr/local/cuda, the wheels of cuda_requirements.txt. Where there is none
of them, or KERF_CUDA is 0, HAVE_CUDA of @cuda//:defs.bzl is False and all is built but the kernels of
the GPU. KERF_CUDA=require makes a failure of that, so that nobody loses them in silence.

The answer is kept until KERF_CUDA or CUDA_HOME change; `bazel sync --only=cuda` asks again.
"""

# 10 minutes: the wheels are 100 MB.
_INSTALL_SECONDS = 600

def _toolkit_at(root):
    """What a toolkit has to have and where, or None."""
    nvcc = root.get_child("bin").get_child("nvcc")
    for folder in ["lib64", "lib"]:
        if nvcc.exists and root.get_child(folder).get_child("libcudart_static.a").exists:
            return struct(root = root, library_folder = folder)
    return None

def _install(repository_ctx):
    """Installs the wheels.

    Args:
      repository_ctx: of the rule.

    Returns:
      The toolkit, or None, and what went wrong.
    """
    python = repository_ctx.which("python3")
    if not python:
        return None, "there is no python3"

    # An environment of its own, because a system's Python may have no pip, or refuse to use it.
    result = repository_ctx.execute([python, "-m", "venv", "venv"], timeout = _INSTALL_SECONDS)
    if result.return_code != 0:
        return None, "no venv (apt-get install python3-venv): " + result.stdout + result.stderr
    result = repository_ctx.execute([
        "venv/bin/python",
        "-m",
        "pip",
        "install",
        "--disable-pip-version-check",
        "--no-deps",
        "--only-binary=:all:",
        "--quiet",
        "--require-hashes",
        "--retries=1",
        "--timeout=15",
        "--target=wheels",
        "--requirement",
        repository_ctx.path(repository_ctx.attr.requirements),
    ], timeout = _INSTALL_SECONDS)
    repository_ctx.delete("venv")
    if result.return_code != 0:
        return None, "pip: " + result.stderr.strip().split("\n")[-1]
    return _toolkit_at(repository_ctx.path("wheels/nvidia/cu13")), "no nvcc in the wheels"

def _find(repository_ctx):
    wish = repository_ctx.os.environ.get("KERF_CUDA", "")
    if wish not in ["", "0", "require"]:
        fail("KERF_CUDA is '%s': 0 (never), require (or fail), or unset (where it can be had)" % wish)
    if wish == "0":
        return None
    home = repository_ctx.os.environ.get("CUDA_HOME", "")
    for root in [home, "/usr/local/cuda"]:
        toolkit = _toolkit_at(repository_ctx.path(root)) if root else None
        if toolkit:
            return toolkit
        if root and root == home:
            fail("CUDA_HOME is '%s': no bin/nvcc or no libcudart_static.a in it" % home)
    toolkit, error = _install(repository_ctx)
    if toolkit:
        return toolkit
    message = ("no CUDA: none in /usr/local/cuda, and none can be installed: %s\n" % error +
               "Set CUDA_HOME to a CUDA Toolkit of version 12.2 or later, or make the package " +
               "registry reachable and type: bazel sync --only=cuda")
    if wish == "require":
        fail(message)

    # buildifier: disable=print
    print(message + "\nAll but the kernels of the GPU is built. KERF_CUDA=0 asks no more.")
    return None

_NO_TOOLKIT = """
filegroup(name = "toolkit")
cc_library(name = "runtime")
"""

_TOOLKIT = """
exports_files(["bin/nvcc"])

filegroup(
    name = "toolkit",
    srcs = glob(["bin/**", "nvvm/bin/**", "nvvm/libdevice/**"]),
)

cc_library(
    name = "runtime",
    srcs = ["lib/libcudart_static.a"],
    hdrs = glob(["include/**"]),
    includes = ["include"],
    linkopts = ["-ldl", "-lpthread", "-lrt"],
)
"""

def _cuda_impl(repository_ctx):
    toolkit = _find(repository_ctx)
    build = _NO_TOOLKIT
    if toolkit:
        build = _TOOLKIT
        for folder in ["bin", "include", "nvvm"]:
            repository_ctx.symlink(toolkit.root.get_child(folder), folder)
        repository_ctx.symlink(toolkit.root.get_child(toolkit.library_folder), "lib")
    repository_ctx.file(
        "BUILD.bazel",
        "package(default_visibility = [\"//visibility:public\"])\n" + build,
        executable = False,
    )
    repository_ctx.file("defs.bzl", "HAVE_CUDA = %r\n" % bool(toolkit), executable = False)

cuda_repository = repository_rule(
    implementation = _cuda_impl,
    configure = True,
    environ = ["CUDA_HOME", "KERF_CUDA"],
    attrs = {"requirements": attr.label(
        allow_single_file = True,
        default = "//bazel:cuda_requirements.txt",
    )},
)
