// A front's workers over TLS: who is taken for one, and what is said of who is not.
#include "server/routing/worker_tls.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/check.h"
#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"
#include "server/edge/testing/test_worker.h"
#include "server/routing/worker_set.h"

namespace kerf::routing {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;
using testing::AllOf;
using testing::HasSubstr;

// A guard against a hang, not a measure.
constexpr std::chrono::seconds kPatience{30};
constexpr milliseconds kReload{50};

bool Eventually(const std::function<bool()>& condition) {
  const auto deadline = steady_clock::now() + kPatience;
  while (!condition()) {
    if (steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(milliseconds(2));
  }
  return true;
}

class WorkerTlsTest : public ::testing::Test {
 protected:
  // Debian's c-ares (1.18) loses some bytes of each name that it looks up.
  static void SetUpTestSuite() { setenv("GRPC_DNS_RESOLVER", "native", /*overwrite=*/1); }

  WorkerTlsTest() {
    // Short, for it holds a socket.
    folder_ = "/tmp/worker-tls-XXXXXX";
    KERF_CHECK(mkdtemp(folder_.data()) != nullptr);
    WriteTlsFile(Path("ca.pem"), all_.ca.certificate);
    front_files_ =
        WriteTlsFiles(folder_, "front", all_.Of("front", {"spiffe://kerf.test/front"}, true, true),
                      Path("ca.pem"));
  }
  ~WorkerTlsTest() override {
    std::error_code error;
    std::filesystem::remove_all(folder_, error);
  }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Clients have to show a certificate of the CA.
  std::unique_ptr<TlsSource> ServerTls(const std::string& name, const CertifiedKey& key) {
    const TlsFiles files = WriteTlsFiles(folder_, name, key, Path("ca.pem"));
    auto opened =
        TlsSource::Open({.side = TlsRules::Side::kHttp2Server, .files = files}, nullptr, kReload);
    KERF_CHECK(opened.ok());
    return *std::move(opened);
  }
  CertifiedKey WorkerKey(const std::vector<std::string>& names = {"127.0.0.1", "localhost"}) {
    return all_.Of("worker", names, true, false);
  }

  void Front(const std::vector<std::string>& workers, const std::string& name = "") {
    set_.reset();
    auto opened = WorkerTls::Open(front_files_, name, nullptr, kReload);
    ASSERT_TRUE(opened.ok()) << opened.status();
    tls_ = *std::move(opened);
    WorkerSetOptions options;
    for (const std::string& text : workers) options.workers.push_back(*ParseWorkerAddress(text));
    options.check_times = {.interval = milliseconds(20), .max_interval = milliseconds(50)};
    options.check_timeout = milliseconds(5000);
    options.tls = tls_.get();
    set_ = std::make_unique<WorkerSet>(std::move(options));
    EXPECT_TRUE(set_->WaitForFirstChecks(kPatience));
  }
  std::string Lost() {
    const auto states = set_->States();
    return states.empty() ? "nothing is known" : states[0].lost;
  }

  TestCertificates all_;
  std::string folder_;
  TlsFiles front_files_;
  std::unique_ptr<WorkerTls> tls_;
  std::unique_ptr<WorkerSet> set_;
};

TEST_F(WorkerTlsTest, AWorkerOfTheCaAndOfItsNameIsUsed) {
  const auto tls = ServerTls("worker", WorkerKey());
  const TestWorker worker("127.0.0.1:0", "w", tls.get());
  Front({worker.address()});
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
}

TEST_F(WorkerTlsTest, AnotherNameIsNotUsedAndTheLogSaysSo) {
  const auto tls = ServerTls("worker", WorkerKey());
  const TestWorker worker("127.0.0.1:0", "w", tls.get());
  testing::internal::CaptureStderr();
  Front({worker.address()}, "kerf-worker");
  EXPECT_EQ(set_->live_count(), 0u);
  EXPECT_EQ(Lost(), "TLS: its certificate is not of kerf-worker");
  set_.reset();
  EXPECT_THAT(testing::internal::GetCapturedStderr(),
              HasSubstr("is not used: TLS: its certificate is not of kerf-worker"));
}

TEST_F(WorkerTlsTest, TheNameIsThatOfTheHostOrOfTheGroupOrTheOneThatIsSet) {
  const auto host = ServerTls("host", WorkerKey({"localhost"}));
  const TestWorker by_host("127.0.0.1:0", "w", host.get());
  const std::string port = by_host.address().substr(by_host.address().rfind(':') + 1);
  Front({Cat("localhost:", port)});
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
  // Its members are addresses, of which it is not.
  Front({Cat("dns:localhost:", port)});
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
  // Those who go straight there are told so.
  EXPECT_EQ(set_->Locate("")->address, by_host.address());
  EXPECT_EQ(set_->Locate("")->tls_name, "localhost");
  Front({by_host.address()});
  EXPECT_EQ(Lost(), "TLS: its certificate is not of 127.0.0.1");
  Front({by_host.address()}, "localhost");
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
}

TEST_F(WorkerTlsTest, WhoCannotBeVerifiedIsLostAndItIsSaidWhy) {
  const auto expect_lost = [&](const TlsSource* tls, const std::string& why) {
    const TestWorker worker("127.0.0.1:0", "w", tls);
    Front({worker.address()});
    EXPECT_EQ(set_->live_count(), 0u);
    EXPECT_THAT(Lost(), HasSubstr(why));
  };
  const TestCertificates others;
  expect_lost(ServerTls("foreign", others.server).get(), "of no CA in --worker-tls-ca");
  expect_lost(
      ServerTls("old", all_.Of("w", {"127.0.0.1"}, true, false, std::chrono::hours(0))).get(),
      "its time is over");
  expect_lost(ServerTls("client", all_.Of("w", {"127.0.0.1"}, false, true)).get(),
              "not for servers");
  expect_lost(nullptr, "it does not speak TLS");
}

TEST_F(WorkerTlsTest, AWorkerThatDoesNotTakeTheFrontsCertificateIsLostAndItIsSaidWhy) {
  const auto tls = ServerTls("worker", WorkerKey());
  const TestWorker worker("127.0.0.1:0", "w", tls.get());
  const TestCertificates others;
  const std::string ca = front_files_.ca;
  for (const TlsFiles& files :
       {TlsFiles{.ca = ca}, WriteTlsFiles(folder_, "foreign", others.client, ca),
        WriteTlsFiles(folder_, "server", all_.Of("front", {"front"}, true, false), ca)}) {
    front_files_ = files;
    Front({worker.address()});
    EXPECT_EQ(set_->live_count(), 0u);
    EXPECT_THAT(Lost(), AllOf(HasSubstr("--tls-client-ca"), HasSubstr("--tls-cert")));
  }
}

TEST_F(WorkerTlsTest, AUnixSocketStaysInTheClear) {
  const TestWorker worker(Cat("unix:", Path("w.sock")), "w");
  Front({worker.address()});
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
}

TEST_F(WorkerTlsTest, FilesAreReadAnewAndHalfOfThemChangesNothing) {
  const TestCertificates others;
  auto tls = ServerTls("worker", WorkerKey());
  auto worker = std::make_unique<TestWorker>("127.0.0.1:0", "w", tls.get());
  const std::string address = worker->address();
  Front({address});
  ASSERT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
  const auto restart = [&](const CertifiedKey& key) {
    worker.reset();
    EXPECT_TRUE(Eventually([&] { return set_->live_count() == 0; }));
    tls = ServerTls("worker", key);
    worker = std::make_unique<TestWorker>(address, "w", tls.get());
  };
  // Half written: the worker that comes back is met with what there was before.
  WriteTlsFile(front_files_.certificate, all_.client.certificate.substr(0, 300));
  WriteTlsFile(front_files_.ca, "");
  std::this_thread::sleep_for(4 * kReload);
  WriteTlsFile(Path("worker-ca.pem"), all_.ca.certificate);
  worker.reset();
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 0; }));
  const TlsFiles files = WriteTlsFiles(folder_, "worker", WorkerKey(), Path("worker-ca.pem"));
  tls = *TlsSource::Open({.side = TlsRules::Side::kHttp2Server, .files = files}, nullptr, kReload);
  worker = std::make_unique<TestWorker>(address, "w", tls.get());
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
  // Another CA, for both: what is connected stays, who comes back is met with it.
  WriteTlsFiles(folder_, "front", others.Of("front", {"front"}, true, true));
  WriteTlsFile(front_files_.ca, others.ca.certificate);
  std::this_thread::sleep_for(4 * kReload);
  EXPECT_EQ(set_->live_count(), 1u);
  restart(others.Of("worker", {"127.0.0.1"}, true, false));
  EXPECT_TRUE(Eventually([&] { return set_->live_count() == 1; })) << Lost();
}

TEST_F(WorkerTlsTest, FilesThatAreMissingOrWrongAreRefusedByTheirNames) {
  const auto error_of = [&](const TlsFiles& files) {
    const auto opened = WorkerTls::Open(files, "", nullptr, kReload);
    return opened.ok() ? "" : std::string(opened.status().message());
  };
  EXPECT_THAT(error_of({.ca = Path("none.pem")}), HasSubstr(Path("none.pem")));
  WriteTlsFile(Path("half.pem"), all_.ca.certificate.substr(0, 200));
  EXPECT_THAT(error_of({.ca = Path("half.pem")}), HasSubstr(Path("half.pem")));
  TlsFiles files = front_files_;
  files.key = Path("ca.pem");
  EXPECT_THAT(error_of(files), HasSubstr(Path("ca.pem")));
}

}  // namespace
}  // namespace kerf::routing
