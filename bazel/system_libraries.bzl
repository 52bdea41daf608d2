"""Every outside library that kerf links, and the Debian package it is from.

tools/deps installs these packages; docs/adr/0002 says why each was chosen.
"""

load("//bazel:pkg_config.bzl", "pkg_config_repository")
load("//bazel:protoc.bzl", "protoc_repository")
load("//bazel:system_protos.bzl", "system_protos_repository")

def system_libraries():
    """Declares the repositories of all outside libraries."""
    protoc_repository(name = "com_google_protobuf")
    system_protos_repository(
        name = "grpc_proto",
        apt = "grpc-proto",
        protos = {"health_proto": "grpc/health/v1/health.proto"},
        root = "/usr/share/grpc-proto",
    )

    # Static, so that the agent starts fast and runs on a machine without them.
    pkg_config_repository(
        name = "grpc",
        apt = "libgrpc++-dev libprotobuf-dev",
        extra_libs = ["-lgrpc++_reflection"],
        modules = [
            "grpc++",
            "protobuf",
        ],
        # Debian's archives of all others are compiled for programs alone.
        relocatable = [
            "grpc++",
            "grpc",
            "gpr",
            "upb",
            "address_sorting",
        ],
        static = True,
    )
    pkg_config_repository(
        name = "protobuf",
        apt = "libprotobuf-dev",
        modules = ["protobuf"],
        static = True,
    )
    pkg_config_repository(
        name = "absl",
        apt = "libabsl-dev",
        modules = [
            "absl_flat_hash_map",
            "absl_flat_hash_set",
            "absl_span",
            "absl_status",
            "absl_statusor",
            "absl_str_format",
            "absl_strings",
        ],
        static = True,
    )
    pkg_config_repository(
        name = "openssl_crypto",
        apt = "libssl-dev",
        modules = ["libcrypto"],
        static = True,
    )
    pkg_config_repository(
        name = "openssl_ssl",
        apt = "libssl-dev",
        modules = ["libssl"],
        static = True,
    )
    pkg_config_repository(
        name = "zstd",
        apt = "libzstd-dev",
        modules = ["libzstd"],
        static = True,
    )
    pkg_config_repository(
        name = "xxhash",
        apt = "libxxhash-dev",
        modules = ["libxxhash"],
        static = True,
    )
    pkg_config_repository(
        name = "rocksdb",
        apt = "librocksdb-dev",
        modules = ["rocksdb"],
    )
    pkg_config_repository(
        name = "cli11",
        apt = "libcli11-dev",
        header_only = True,
        modules = ["CLI11"],
    )
    pkg_config_repository(
        name = "tomlplusplus",
        apt = "libtomlplusplus-dev",
        header_only = True,
        modules = ["tomlplusplus"],
    )
    pkg_config_repository(
        name = "nlohmann_json",
        apt = "nlohmann-json3-dev",
        header_only = True,
        modules = ["nlohmann_json"],
    )
    pkg_config_repository(
        name = "spdlog",
        apt = "libspdlog-dev libfmt-dev",
        defines = [
            "FMT_HEADER_ONLY",
            "SPDLOG_FMT_EXTERNAL",
        ],
        header_only = True,
        modules = ["fmt"],
    )

    # Loaded when a store has parity (client/store/parity/parity_code.cc): Debian has no static archive of it, and the agent
    # is to run on machines without it.
    pkg_config_repository(
        name = "isal",
        apt = "libisal-dev",
        header_only = True,
        modules = ["libisal"],
    )

    # The processor is asked by kerf itself (kernels/vector), so that nothing has to be linked.
    pkg_config_repository(
        name = "hwy",
        apt = "libhwy-dev",
        header_only = True,
        modules = ["libhwy"],
    )

    # Of Debian's security team; a mend of its own needs a new build of kerf (docs/adr/0019).
    pkg_config_repository(
        name = "nghttp2",
        apt = "libnghttp2-dev",
        modules = ["libnghttp2"],
        static = True,
    )
    pkg_config_repository(
        name = "hiredis",
        apt = "libhiredis-dev",
        modules = ["hiredis"],
        static = True,
    )
    pkg_config_repository(
        name = "libevent",
        apt = "libevent-dev",
        modules = ["libevent_core"],
        static = True,
    )

    # kerfd's port for those who watch it.
    pkg_config_repository(
        name = "libevent_http",
        apt = "libevent-dev",
        modules = [
            "libevent_extra",
            "libevent_openssl",
            "libevent_core",
        ],
        static = True,
    )
    pkg_config_repository(
        name = "gtest",
        apt = "libgtest-dev libgmock-dev",
        modules = [
            "gmock",
            "gtest",
        ],
        static = True,
    )

    # Of the tests' own file system (e2e/fault_fs).
    pkg_config_repository(
        name = "fuse3",
        apt = "libfuse3-dev",
        modules = ["fuse3"],
    )
    pkg_config_repository(
        name = "benchmark",
        apt = "libbenchmark-dev",
        modules = ["benchmark"],
    )
