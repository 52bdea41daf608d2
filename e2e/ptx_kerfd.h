// A kerfd whose GPUs run, on the CPU, the PTX that ships (kernels/cuda/ptx/plugin), and uploads
// that are held against the plain reference.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/random.h"
#include "base/strings.h"
#include "base/test_seed.h"
#include "e2e/http.h"
#include "e2e/round_trip.h"
#include "e2e/world.h"
#include "kerf/v1/chunking.pb.h"
#include "kernels/registry.h"
#include "server/edge/testing/test_upload.h"

namespace kerf::e2e {

class PtxKerfd : public testing::Test {
 protected:
  // Several to a batch's stream: each is more than one piece.
  static constexpr std::size_t kFileBytes = 600'000;

  PtxKerfd() : random_(TestSeed()) { KERF_CHECK(SetDefaultBackend("plain").ok()); }

  // `devices` as kernels/cuda/ptx/plugin/device_list.h has them. Pieces go to them however slow
  // they are, in batches of the size that is the least: what a machine without a GPU can run.
  void StartServer(const std::string& devices, const std::vector<std::string>& more = {}) {
    world_.SetEnvironment("KERF_PTX_DEVICES", devices);
    std::vector<std::string> flags = {"--gpu-plugin",
                                      BuiltProgram("kernels/cuda/ptx/plugin/libkerf_ptx.so"),
                                      "--gpu-min-piece",
                                      "0",
                                      "--gpu-memory",
                                      "1M",
                                      "--listen",
                                      "127.0.0.1:0",
                                      "--metrics-listen",
                                      "127.0.0.1:0",
                                      "--metrics-ready-file",
                                      world_ / "server/metrics"};
    flags.insert(flags.end(), more.begin(), more.end());
    world_.StartServer(flags);
  }

  // From now on what has "armed=" + armed() is as its fault says.
  std::string armed() { return world_ / "armed"; }
  void Arm() { WriteText(armed(), "now"); }

  std::string RandomText(std::size_t size_bytes) {
    std::string text(size_bytes, '\0');
    random_.Fill({reinterpret_cast<std::uint8_t*>(text.data()), text.size()});
    return text;
  }

  // Uploads the files in one stream. Every recipe has to be the reference's. The backend that the
  // server named.
  std::string Upload(const std::string& profile, v1::DigestAlgorithm digest_algorithm,
                     const std::vector<std::string>& files) {
    const std::string name = v1::DigestAlgorithm_Name(digest_algorithm);
    v1::Open open = OpenFor(name, profile);
    open.set_digest_algorithm(digest_algorithm);
    TestUpload upload(ConnectTo(world_.last_address()));
    upload.SendOpen(open);
    const auto opened = upload.WaitForAnswer(&v1::UploadAnswer::has_opened);
    if (!opened.has_value()) {
      ADD_FAILURE() << profile << ", " << name << ": " << upload.WaitForEnd().error_message();
      return "";
    }
    for (std::size_t number = 0; number < files.size(); ++number) {
      upload.SendFile(files[number], kSliceBytes);
      // The server counts them from 1.
      EXPECT_TRUE(upload.WaitForChunks(number + 1, files[number].size()))
          << profile << ", " << name;
      EXPECT_TRUE(upload.RecipeOf(number + 1) == PlainRecipe(files[number], open))
          << profile << ", " << name << ": file " << number << " has other chunks";
    }
    return opened->opened().backend();
  }

  // With each digest, beside each other; the backends that were named, in the order of kDigests.
  std::vector<std::string> UploadWithEachDigest(const std::string& profile,
                                                const std::vector<std::string>& files) {
    std::vector<std::string> backends(std::size(kDigests));
    std::vector<std::thread> threads;
    for (std::size_t index = 0; index < std::size(kDigests); ++index) {
      threads.emplace_back(
          [&, index] { backends[index] = Upload(profile, kDigests[index], files); });
    }
    for (std::thread& thread : threads) thread.join();
    return backends;
  }

  // Those that the program says can be cut on a GPU.
  std::vector<std::string> GpuProfiles() {
    std::vector<std::string> names;
    for (const nlohmann::json& profile : world_.KerfJson({"profiles"}).Of("profile")) {
      for (const nlohmann::json& where : profile["cut_on"]) {
        if (where == "gpu") names.push_back(profile["name"]);
      }
    }
    return names;
  }

  nlohmann::json Ping() { return world_.KerfJson({"ping"}).Only("summary"); }

  // Of the page of metrics: "kerf_gpus{state=\"lost\"}"; -1: it is not there.
  double Metric(const std::string& name) {
    const std::string page =
        Cat("\n", GetHttp(ReadText(world_ / "server/metrics"), "/metrics").body);
    const std::size_t at = page.find(Cat("\n", name, " "));
    return at == std::string::npos ? -1 : std::stod(page.substr(at + name.size() + 2));
  }

  static constexpr v1::DigestAlgorithm kDigests[] = {
      v1::DIGEST_ALGORITHM_BLAKE3, v1::DIGEST_ALGORITHM_SHA256, v1::DIGEST_ALGORITHM_XXH3_128};
  // What a stream that GPUs cut has in Opened.
  static constexpr const char* kOnGpu = "cuda";

  World world_;
  Random random_;

 private:
  static constexpr std::size_t kSliceBytes = 150'000;
};

}  // namespace kerf::e2e
