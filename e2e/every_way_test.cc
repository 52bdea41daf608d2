// Every way from a file to its recipe: cut by the server from bytes of a socket or of shared
// memory, by the client, by a GPU's code, directly or behind a front. The chunks are the same.
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "client/fs/testing/compare_trees.h"
#include "e2e/ptx_kerfd.h"
#include "server/redis/testing/test_redis.h"

namespace kerf::e2e {
namespace {

// A way, and how the summary of a backup tells that it was gone.
struct Way {
  std::string name;
  std::string server;
  std::vector<std::string> flags;
  bool is_cut_here = false;
  bool is_shared = false;
  bool is_on_gpu = false;
};

class EveryWayTest : public PtxKerfd {
 protected:
  EveryWayTest() : tree_(world_ / "tree") {
    MakeTree();
    StartServer(Cat("seed=", TestSeed()));
    worker_ = world_.StartKerfd(
        "w0", {"--role", "worker", "--worker-name", "w0", "--listen", "127.0.0.1:0", "--redis",
               FormatRedisAddress(redis_.addresses().front()), "--redis-replicas", "0"});
    plain_ = world_.StartKerfd("w1", {"--backend", "plain"});
    front_ = world_.StartKerfd("f0", {"--role", "front", "--worker-check-ms", "200", "--workers",
                                      World::AddressOf("w0"), "--listen", "127.0.0.1:0"});
  }

  void AddFile(const std::string& name, const std::string& content) {
    WriteText(tree_ + "/" + name, content);
  }
  // Around every length that some profile takes for its least or its most, and what cuts ill: the
  // same byte, the same page, text of few letters.
  void MakeTree() {
    std::filesystem::create_directory(tree_);
    std::set<std::size_t> lengths_bytes;
    for (const std::size_t length_bytes : {0u, 1024u, 2048u, 4096u, 8192u, 12'288u, 32'768u}) {
      for (const int more : {-1, 0, 1}) {
        lengths_bytes.insert(static_cast<std::size_t>(
            std::max<std::int64_t>(static_cast<std::int64_t>(length_bytes) + more, 0)));
      }
    }
    for (const std::size_t length_bytes : lengths_bytes) {
      AddFile(Cat("length-", length_bytes), RandomText(length_bytes));
    }
    AddFile("random", RandomText(400'000));
    AddFile("zeros", std::string(100'000, '\0'));
    const std::string page = RandomText(4096);
    std::string pages;
    for (int count = 0; count < 20; ++count) pages += page;
    AddFile("pages", pages);
    std::string text = RandomText(100'000);
    for (char& letter : text) letter = "etaoin \n"[static_cast<unsigned char>(letter) % 8];
    AddFile("text", text);
  }

  std::vector<Way> Ways() {
    const std::string worker = World::AddressOf("w0");
    const std::string worker_tcp = world_.LastAddressOf("w0");
    const std::string front_tcp = world_.LastAddressOf("f0");
    return {
        {"bytes of a socket", worker_tcp, {"--cut", "remote"}},
        {"bytes of a unix socket", worker, {"--cut", "remote", "--shared-memory", "off"}},
        {"shared memory", worker, {"--cut", "remote"}, false, true},
        {"the client", worker_tcp, {"--cut", "local"}, true},
        {"plain kernels", World::AddressOf("w1"), {"--cut", "remote"}, false, true},
        {"a front", front_tcp, {"--cut", "remote"}},
        {"a front, its unix socket", World::AddressOf("f0"), {"--cut", "remote"}},
        {"a front, the client", front_tcp, {"--cut", "local"}, true},
        {"a GPU", world_.last_address(), {"--cut", "remote"}, false, false, true},
        {"a GPU, shared memory", world_.address(), {"--cut", "remote"}, false, true, true},
    };
  }

  nlohmann::json BackUp(const Way& way, const std::string& store, const std::string& profile,
                        const std::string& digest) {
    std::vector<std::string> arguments = {tree_,     "--store",   store,   "--server", way.server,
                                          "--force", "--profile", profile, "--digest", digest};
    arguments.insert(arguments.end(), way.flags.begin(), way.flags.end());
    const double before_bytes = Metric("kerf_gpu_bytes_total");
    nlohmann::json summary = world_.Backup(std::move(arguments));
    const bool was_on_gpu = Metric("kerf_gpu_bytes_total") > before_bytes;
    EXPECT_GT(summary["streams"], 0);
    EXPECT_EQ(summary["local_cut_streams"],
              way.is_cut_here ? summary["streams"] : nlohmann::json(0));
    EXPECT_EQ(summary["shared_memory_streams"],
              way.is_shared ? summary["streams"] : nlohmann::json(0));
    EXPECT_TRUE(was_on_gpu == way.is_on_gpu || !CanBeOnGpu(profile, digest)) << was_on_gpu;
    EXPECT_EQ(summary["warnings"], 0);
    return summary;
  }
  bool CanBeOnGpu(const std::string& profile, const std::string& digest) {
    if (gpu_profiles_.empty()) {
      for (std::string& name : GpuProfiles()) gpu_profiles_.insert(std::move(name));
    }
    return gpu_profiles_.contains(profile) && digest != "xxh3-128";
  }
  // In one store: a cut of another way would be a chunk that is new, and one that is not made is
  // one chunk less.
  void ExpectOneRecipe(const std::string& profile, const std::string& digest) {
    SCOPED_TRACE(Cat(profile, ", ", digest));
    const std::string store = world_ / Cat("store-", profile, "-", digest);
    nlohmann::json first;
    for (const Way& way : Ways()) {
      SCOPED_TRACE(way.name);
      const nlohmann::json summary = BackUp(way, store, profile, digest);
      if (first.empty()) {
        first = summary;
        EXPECT_GT(summary["new_chunks"], summary["new_metadata_chunks"]);
        continue;
      }
      EXPECT_EQ(summary["new_chunks"], summary["new_metadata_chunks"]);
      EXPECT_EQ(summary["total_bytes"], first["total_bytes"]);
      EXPECT_EQ(summary["chunks"], first["chunks"]);
    }
    const std::string target = world_ / "restored";
    EXPECT_EQ(
        world_.KerfJson({"restore", "latest", "--store", store, "--target", target}).exit_code,
        kOk);
    EXPECT_THAT(agent::testing::CompareTrees(tree_, target + tree_, {}), testing::IsEmpty());
    std::filesystem::remove_all(target);
    std::filesystem::remove_all(store);
  }

  std::vector<std::string> AllProfiles() {
    std::vector<std::string> names;
    for (const nlohmann::json& profile : world_.KerfJson({"profiles"}).Of("profile")) {
      names.push_back(profile["name"]);
    }
    return names;
  }

  const std::string tree_;
  // Of the worker behind the front.
  TestRedis redis_{TestRedis::Kind::kSingle};
  std::unique_ptr<Program> worker_;
  std::unique_ptr<Program> plain_;
  std::unique_ptr<Program> front_;
  std::set<std::string> gpu_profiles_;
};

TEST_F(EveryWayTest, HasOneRecipeWithEachProfile) {
  ASSERT_FALSE(HasFailure());
  const std::vector<std::string> profiles = AllProfiles();
  ASSERT_GE(profiles.size(), 20u);
  for (const std::string& profile : profiles) ExpectOneRecipe(profile, "blake3");
}

TEST_F(EveryWayTest, HasOneRecipeWithEachDigest) {
  ASSERT_FALSE(HasFailure());
  for (const char* digest : {"sha256", "xxh3-128"}) ExpectOneRecipe("mincdc-8k", digest);
}

}  // namespace
}  // namespace kerf::e2e
