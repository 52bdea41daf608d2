// Loading the plug-in: what is none, one of another build, and one that is linked in.
#include "kernels/cuda/plugin/plugin.h"

#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/version.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/plugin/kernel_list.h"

namespace kerf::cuda {
namespace {

using ::testing::HasSubstr;

const std::string kFolder = "kernels/cuda/plugin/";

std::string MessageOfLoading(const std::string& path, absl::StatusCode code) {
  const auto plugin = Plugin::Load(path);
  EXPECT_EQ(plugin.status().code(), code) << plugin.status();
  return std::string(plugin.status().message());
}

TEST(PluginTest, WhatIsNoPluginOfThisBuildIsRefused) {
  EXPECT_THAT(MessageOfLoading("no/such/file.so", absl::StatusCode::kNotFound),
              HasSubstr("no/such/file.so"));
  EXPECT_THAT(MessageOfLoading("/proc/self/exe", absl::StatusCode::kFailedPrecondition),
              HasSubstr("/proc/self/exe"));
  EXPECT_THAT(MessageOfLoading("/etc/passwd", absl::StatusCode::kFailedPrecondition),
              HasSubstr("cannot be loaded"));
  EXPECT_THAT(
      MessageOfLoading(kFolder + "libother_build.so", absl::StatusCode::kFailedPrecondition),
      HasSubstr("belongs to another kerfd"));
}

TEST(PluginTest, OneThatIsLinkedInIsHeldToTheSame) {
  PluginApi api = {};
  api.abi_version = kPluginAbiVersion;
  api.version = kVersion.data();
  api.version_bytes = kVersion.size();
  api.kernel_count = KernelList::kCount;
  auto args_bytes = KernelList::kArgsBytes;
  api.args_bytes = args_bytes.data();
  api.names_hash = KernelList::NamesHash();
  EXPECT_TRUE(Plugin::Of(api, "mine").ok());
  const auto message_of = [](const PluginApi& other) {
    const auto plugin = Plugin::Of(other, "mine");
    EXPECT_EQ(plugin.status().code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(plugin.status().message()), HasSubstr("mine belongs to another kerfd"));
    return std::string(plugin.status().message());
  };
  PluginApi other = api;
  ++other.abi_version;
  EXPECT_THAT(message_of(other), HasSubstr("interface"));
  other = api;
  other.version = "0.0.0";
  other.version_bytes = 5;
  EXPECT_THAT(message_of(other), HasSubstr("it is of kerf 0.0.0"));
  other = api;
  ++other.names_hash;
  EXPECT_THAT(message_of(other), HasSubstr("its kernels are other ones"));
  other = api;
  --other.kernel_count;
  EXPECT_THAT(message_of(other), HasSubstr("other arguments"));
  ++args_bytes.back();
  EXPECT_THAT(message_of(api), HasSubstr("other arguments"));
}

// A plug-in whose device does nothing but remember, in place of one of CUDA.
std::vector<std::string>& Calls() {
  static auto& calls = *new std::vector<std::string>;
  return calls;
}

PluginResult RefuseWith(PluginError* error, const char* text) {
  std::snprintf(error->text, sizeof error->text, "%s", text);
  return PluginResult::kRefused;
}

TEST(PluginTest, ARefusalIsNoLoss) {
  PluginApi api = {};
  api.abi_version = kPluginAbiVersion;
  api.version = kVersion.data();
  api.version_bytes = kVersion.size();
  api.kernel_count = KernelList::kCount;
  api.args_bytes = KernelList::kArgsBytes.data();
  api.names_hash = KernelList::NamesHash();
  api.open = [](std::uint32_t, PluginDevice** device, PluginDeviceInfo*, PluginError*) {
    static char place;
    *device = reinterpret_cast<PluginDevice*>(&place);
    return PluginResult::kOk;
  };
  api.close = [](PluginDevice*) { Calls().push_back("close"); };
  api.load_kernels = [](PluginDevice*, PluginError*) {
    Calls().push_back("load");
    return PluginResult::kOk;
  };
  api.launch = [](PluginDevice*, std::uint32_t, std::uint32_t, const std::uint8_t*, std::size_t,
                  PluginError* error) { return RefuseWith(error, "too little of it"); };
  api.cancel_graph = [](PluginDevice*, std::uint32_t queue, PluginError*) {
    Calls().push_back("cancel " + std::to_string(queue));
    return PluginResult::kOk;
  };
  {
    const auto device = *Plugin::Of(api, "mine")->Open(0);
    EXPECT_TRUE(device->LoadKernels().ok());
    const absl::Status refused = device->Launch(QueueId(3), 0, {});
    EXPECT_TRUE(absl::IsFailedPrecondition(refused));
    EXPECT_EQ(refused.message(), "too little of it");
    EXPECT_TRUE(device->CancelGraph(QueueId(3)).ok());
  }
  EXPECT_THAT(Calls(), ::testing::ElementsAre("load", "cancel 3", "close"));
}

template <int>
struct Named {
  struct Args {};
};

TEST(PluginTest, NamesAndTheirOrderMakeTheHash) {
  const std::uint64_t hash = KernelTypes<Named<1>, Named<2>>::NamesHash();
  EXPECT_EQ(hash, (KernelTypes<Named<1>, Named<2>>::NamesHash()));
  EXPECT_NE(hash, (KernelTypes<Named<2>, Named<1>>::NamesHash()));
  EXPECT_NE(hash, (KernelTypes<Named<1>, Named<3>>::NamesHash()));
  EXPECT_NE(hash, (KernelTypes<Named<1>>::NamesHash()));
}

}  // namespace
}  // namespace kerf::cuda
