// system_headers.h, and what tests and whatever speaks gRPC read beside it (precompiled.bzl).

#include <gmock/gmock.h>
#include <google/protobuf/map.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <iostream>
#include <nlohmann/json.hpp>
#include <random>

#include "bazel/system_headers.h"
