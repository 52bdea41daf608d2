#include "base/tls/tls_context.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/strings.h"
#include "base/tls/testing/test_certificates.h"

namespace kerf {
namespace {

using Side = TlsRules::Side;
using ::testing::AllOf;
using ::testing::HasSubstr;

// The two ends of one handshake, in memory: OK, or what one of them said of it.
struct Outcome {
  bool is_client_done = false;
  bool is_server_done = false;
  long client_verdict = X509_V_OK;
  long server_verdict = X509_V_OK;
  std::string protocol;
  int version = 0;
  // Of which the client was told.
  int ca_count = 0;
  // That the client was shown.
  int chain_size = 0;
  bool can_resume = false;
};

Outcome Shake(const TlsContext& server, const TlsContext& client, const std::string& name,
              void (*change)(SSL& client) = nullptr) {
  const TlsSession ours = server.NewSession();
  const TlsSession theirs = client.NewSession();
  SSL_set_accept_state(ours.get());
  SSL_set_connect_state(theirs.get());
  if (!name.empty()) ExpectName(*theirs, name);
  if (change != nullptr) change(*theirs);
  BIO* here = nullptr;
  BIO* there = nullptr;
  EXPECT_EQ(BIO_new_bio_pair(&here, 0, &there, 0), 1);
  SSL_set_bio(ours.get(), here, here);
  SSL_set_bio(theirs.get(), there, there);
  Outcome outcome;
  for (int turn = 0; turn < 10; ++turn) {
    outcome.is_client_done = SSL_do_handshake(theirs.get()) == 1;
    outcome.is_server_done = SSL_do_handshake(ours.get()) == 1;
  }
  // A client learns afterwards that its certificate was not taken.
  outcome.client_verdict = SSL_get_verify_result(theirs.get());
  outcome.server_verdict = SSL_get_verify_result(ours.get());
  const unsigned char* protocol = nullptr;
  unsigned size = 0;
  SSL_get0_alpn_selected(ours.get(), &protocol, &size);
  outcome.protocol.assign(reinterpret_cast<const char*>(protocol), size);
  outcome.version = SSL_version(ours.get());
  char byte = 0;
  SSL_read(theirs.get(), &byte, 1);
  outcome.can_resume = SSL_SESSION_is_resumable(SSL_get0_session(theirs.get())) == 1;
  outcome.chain_size =
      OPENSSL_sk_num(reinterpret_cast<const OPENSSL_STACK*>(SSL_get_peer_cert_chain(theirs.get())));
  outcome.ca_count =
      OPENSSL_sk_num(reinterpret_cast<const OPENSSL_STACK*>(SSL_get0_peer_CA_list(theirs.get())));
  TakeTlsError();
  return outcome;
}

class TlsContextTest : public testing::Test {
 protected:
  TlsContextTest() { std::filesystem::create_directories(folder_); }
  ~TlsContextTest() override { std::filesystem::remove_all(folder_); }

  absl::Status Load(const TlsFiles& files) {
    const auto texts = ReadTlsFiles(files);
    if (!texts.ok()) return texts.status();
    return TlsContext::Make({.side = Side::kHttp2Server, .files = files}, *texts).status();
  }

  const TestCertificates& all_ = TestCertificates::Get();
  std::string folder_ = Cat(testing::TempDir(), "tls-",
                            testing::UnitTest::GetInstance()->current_test_info()->name());
};

TEST_F(TlsContextTest, OnlyThoseOfTheCaComeIn) {
  const auto server = all_.ContextOf(Side::kHttp2Server, all_.server);
  const auto client = all_.ContextOf(Side::kClient, all_.client);
  const Outcome good = Shake(*server, *client, "localhost");
  EXPECT_TRUE(good.is_client_done && good.is_server_done);
  EXPECT_EQ(good.version, TLS1_3_VERSION);
  EXPECT_FALSE(good.can_resume);
  EXPECT_EQ(good.chain_size, 1);
  EXPECT_TRUE(Shake(*server, *client, "::1").is_server_done);

  const TestCertificates others;
  EXPECT_FALSE(Shake(*server, *others.ContextOf(Side::kClient, others.client), "").is_client_done);
  EXPECT_FALSE(Shake(*server, *client, "otherhost").is_client_done) << "another name";
  EXPECT_FALSE(Shake(*server, *client, "127.0.0.2").is_client_done) << "another address";
  const auto bare =
      TlsContext::Make({.side = Side::kClient, .files = {.ca = "ca"}}, {.ca = all_.ca.certificate});
  EXPECT_FALSE(Shake(*server, **bare, "localhost").is_server_done) << "no certificate";
  const auto as_server = all_.ContextOf(Side::kClient, all_.server);
  EXPECT_FALSE(Shake(*server, *as_server, "localhost").is_server_done) << "not for clients";
  const auto as_client = all_.ContextOf(Side::kHttp2Server, all_.client);
  EXPECT_FALSE(Shake(*as_client, *client, "").is_client_done) << "not for servers";
  const auto old = all_.Of("client", {}, false, true, std::chrono::hours(-1));
  const Outcome expired = Shake(*server, *all_.ContextOf(Side::kClient, old), "localhost");
  EXPECT_FALSE(expired.is_server_done);
  EXPECT_EQ(expired.server_verdict, X509_V_ERR_CERT_HAS_EXPIRED);
  const auto open = all_.ContextOf(Side::kHttp2Server, all_.server, /*with_ca=*/false);
  EXPECT_TRUE(Shake(*open, **bare, "localhost").is_server_done) << "nobody is asked";
}

TEST_F(TlsContextTest, TheProcessItselfIsOneOfTheClients) {
  const auto own = *MakeOwnCertificate({.common_name = "itself", .is_for_clients = true});
  const auto server = *TlsContext::Make(
      {.side = Side::kHttp2Server,
       .files = {.certificate = "c", .key = "k", .ca = "ca"},
       .also_trusted = own.certificate},
      {.certificate = all_.server.certificate, .key = all_.server.key, .ca = all_.ca.certificate});
  EXPECT_TRUE(Shake(*server, *all_.ContextOf(Side::kClient, own), "").is_server_done);
  EXPECT_TRUE(Shake(*server, *all_.ContextOf(Side::kClient, all_.client), "").is_server_done);
  // Also once a clock that was ahead is set back.
  const std::unique_ptr<BIO, void (*)(BIO*)> bio(
      BIO_new_mem_buf(own.certificate.data(), static_cast<int>(own.certificate.size())),
      [](BIO* freed) { BIO_free(freed); });
  X509* const read = PEM_read_bio_X509(bio.get(), nullptr, nullptr, nullptr);
  EXPECT_EQ(ASN1_TIME_cmp_time_t(X509_get0_notBefore(read), 0), 0);
  X509_free(read);
  // Another one that says so is not believed, and that one vouches for nobody.
  const auto other = *MakeOwnCertificate({.common_name = "itself", .is_for_clients = true});
  EXPECT_FALSE(Shake(*server, *all_.ContextOf(Side::kClient, other), "").is_server_done);
  const auto below = *MakeCertificate({.common_name = "x", .is_for_clients = true}, own);
  EXPECT_FALSE(Shake(*server, *all_.ContextOf(Side::kClient, below), "").is_server_done);
}

TEST_F(TlsContextTest, OldVersionsAndOtherProtocolsAreRefused) {
  const auto server = all_.ContextOf(Side::kHttp2Server, all_.server);
  const auto client = all_.ContextOf(Side::kClient, all_.client);
  const Outcome old = Shake(*server, *client, "localhost", [](SSL& session) {
    SSL_set_min_proto_version(&session, TLS1_2_VERSION);
    SSL_set_max_proto_version(&session, TLS1_2_VERSION);
  });
  EXPECT_FALSE(old.is_client_done || old.is_server_done);
  const auto offer = [](SSL& session) {
    const unsigned char protocols[] = "\x08http/1.1\x02h2";
    SSL_set_alpn_protos(&session, protocols, sizeof protocols - 1);
  };
  EXPECT_EQ(Shake(*server, *client, "localhost", offer).protocol, "h2");
  const auto http = all_.ContextOf(Side::kHttpServer, all_.server);
  EXPECT_EQ(Shake(*http, *client, "localhost", offer).protocol, "http/1.1");
  const Outcome other = Shake(*server, *client, "localhost", [](SSL& session) {
    const unsigned char protocols[] = "\x08http/1.1";
    SSL_set_alpn_protos(&session, protocols, sizeof protocols - 1);
  });
  EXPECT_FALSE(other.is_server_done);
}

// What costs a server much more than whoever asks for it is not to be had.
TEST_F(TlsContextTest, OnlyFastGroupsAreAgreedOn) {
  const auto server = all_.ContextOf(Side::kHttp2Server, all_.server);
  const auto client = all_.ContextOf(Side::kClient, all_.client);
  static const char* groups = nullptr;
  const auto offer = [](SSL& session) {
    EXPECT_EQ(SSL_ctrl(&session, SSL_CTRL_SET_GROUPS_LIST, 0, const_cast<char*>(groups)), 1);
  };
  for (const char* fast : {"X25519", "P-256", "P-384", "ffdhe8192:P-256"}) {
    groups = fast;
    EXPECT_TRUE(Shake(*server, *client, "localhost", offer).is_server_done) << groups;
  }
  for (const char* slow : {"ffdhe2048", "ffdhe8192", "P-521", "X448"}) {
    groups = slow;
    EXPECT_FALSE(Shake(*server, *client, "localhost", offer).is_server_done) << groups;
  }
}

TEST_F(TlsContextTest, AChainIsShownAndIsTakenUpToItsBound) {
  const auto with = [&](const CertifiedKey& own, Side side, int count) {
    std::string chain = own.certificate;
    for (; count > 0; --count) chain += all_.ca.certificate;
    return *TlsContext::Make(
        {.side = side, .files = {.certificate = "own", .key = "key", .ca = "ca"}},
        {.certificate = chain, .key = own.key, .ca = all_.ca.certificate});
  };
  const auto client = all_.ContextOf(Side::kClient, all_.client);
  const auto server = with(all_.server, Side::kHttp2Server, 3);
  EXPECT_EQ(Shake(*server, *client, "localhost").chain_size, 4);
  EXPECT_TRUE(Shake(*server, *with(all_.client, Side::kClient, 20), "").is_server_done);
  EXPECT_FALSE(Shake(*server, *with(all_.client, Side::kClient, 60), "").is_server_done);
}

// As a bundle of the system has them: their names alone are more than clients read.
TEST_F(TlsContextTest, ManyCasAreNoTroubleForClients) {
  std::string cas = all_.ca.certificate;
  for (int number = 0; number < 200; ++number) {
    cas += MakeCertificateAuthority(Cat(std::string(60, 'x'), number), TestCertificates::kYear)
               ->certificate;
  }
  const auto server = *TlsContext::Make(
      {.side = Side::kHttp2Server, .files = {.certificate = "c", .key = "k", .ca = "ca"}},
      {.certificate = all_.server.certificate, .key = all_.server.key, .ca = cas});
  const auto client = all_.ContextOf(Side::kClient, all_.client);
  const auto few = all_.ContextOf(Side::kHttp2Server, all_.server);
  EXPECT_EQ(Shake(*few, *client, "localhost").ca_count, 1);
  const Outcome many = Shake(*server, *client, "localhost");
  EXPECT_TRUE(many.is_client_done && many.is_server_done);
  EXPECT_LE(many.ca_count, 0);
}

// Else whoever reads by it is OpenSSL's for as long as a client sends new keys.
TEST_F(TlsContextTest, AServerIsBackBehindEachMessage) {
  for (const Side side : {Side::kHttp2Server, Side::kHttpServer}) {
    const TlsSession ours = all_.ContextOf(side, all_.server, false)->NewSession();
    const TlsSession theirs = all_.ContextOf(Side::kClient, all_.client)->NewSession();
    SSL_set_accept_state(ours.get());
    SSL_set_connect_state(theirs.get());
    BIO* here = nullptr;
    BIO* there = nullptr;
    ASSERT_EQ(BIO_new_bio_pair(&here, 0, &there, 0), 1);
    SSL_set_bio(ours.get(), here, here);
    SSL_set_bio(theirs.get(), there, there);
    for (int turn = 0; turn < 10; ++turn) {
      SSL_do_handshake(theirs.get());
      SSL_do_handshake(ours.get());
    }
    for (int count = 0; count < 2; ++count) {
      SSL_key_update(theirs.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
      ASSERT_EQ(SSL_do_handshake(theirs.get()), 1);
      char byte = 0;
      const int result = SSL_read(ours.get(), &byte, 1);
      EXPECT_EQ(SSL_get_error(ours.get(), result), SSL_ERROR_WANT_READ);
    }
    // Of several that are there only the first is taken where there is no reading ahead.
    SSL_key_update(theirs.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(theirs.get());
    SSL_key_update(theirs.get(), SSL_KEY_UPDATE_NOT_REQUESTED);
    SSL_do_handshake(theirs.get());
    char byte = 0;
    SSL_read(ours.get(), &byte, 1);
    if (side == Side::kHttpServer) {
      EXPECT_GT(BIO_pending(here), 0);
    }
    TakeTlsError();
  }
}

// Says which file, and what is wrong with it.
TEST_F(TlsContextTest, WhatIsWrongWithAFileIsSaid) {
  const TlsFiles files = WriteTlsFiles(folder_, "server", all_.server, folder_ + "/ca.pem");
  EXPECT_TRUE(absl::IsNotFound(Load(files)));
  WriteTlsFile(files.ca, all_.ca.certificate);
  EXPECT_TRUE(Load(files).ok()) << Load(files);
  const auto said = [&] { return std::string(MessageOf(Load(files))); };

  WriteTlsFile(files.ca, "nothing");
  EXPECT_THAT(said(), AllOf(HasSubstr(files.ca), HasSubstr("no certificate in it")));
  std::string cut = all_.ca.certificate;
  cut[cut.size() / 2] = '!';
  WriteTlsFile(files.ca, all_.ca.certificate + cut);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.ca), HasSubstr("cannot be read")));
  std::filesystem::remove(files.ca);
  ASSERT_EQ(mkfifo(files.ca.c_str(), 0600), 0);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.ca), HasSubstr("it is a pipe")));
  std::filesystem::remove(files.ca);
  std::filesystem::create_directories(files.ca);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.ca), HasSubstr("cannot read")));
  std::filesystem::remove(files.ca);
  WriteTlsFile(files.ca, std::string(2 << 20, 'x'));
  EXPECT_THAT(said(), AllOf(HasSubstr(files.ca), HasSubstr("1.0 MiB")));
  WriteTlsFile(files.ca, all_.ca.certificate);

  WriteTlsFile(files.key, all_.client.key);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.key), HasSubstr("not the key of the certificate")));
  WriteTlsFile(files.key, all_.server.certificate);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.key), HasSubstr("no private key")));
  WriteTlsFile(files.key, all_.server.key);
  WriteTlsFile(files.certificate, all_.server.key);
  EXPECT_THAT(said(), AllOf(HasSubstr(files.certificate), HasSubstr("no certificate in it")));
  WriteTlsFile(files.certificate, "");
  EXPECT_THAT(said(), AllOf(HasSubstr(files.certificate), HasSubstr("no certificate in it")));
  WriteTlsFile(files.certificate, all_.server.certificate);
  for (const std::string& file : {files.key, files.ca}) {
    WriteTlsFile(file, "");
    EXPECT_THAT(said(), HasSubstr(file));
    WriteTlsFile(file, file == files.key ? all_.server.key : all_.ca.certificate);
  }
  EXPECT_TRUE(Load(files).ok()) << Load(files);
}

TEST_F(TlsContextTest, NamesThatWouldBecomeOthersAreRefused) {
  const auto made = [&](const std::string& name) {
    return MakeCertificate({.common_name = "x", .names = {name}}, all_.ca).ok();
  };
  for (const char* good : {"a.example", "*.example", "10.0.0.1", "fe80::1", "spiffe://a/b"}) {
    EXPECT_TRUE(made(good)) << good;
  }
  for (const char* bad : {"", "a,DNS:b", "a b", "a\nb", "spiffe://a,DNS:b", "DNS:a"}) {
    EXPECT_FALSE(made(bad)) << bad;
  }
  EXPECT_FALSE(MakeCertificateAuthority("", TestCertificates::kYear).ok());
  EXPECT_FALSE(MakeCertificateAuthority(std::string(65, 'x'), TestCertificates::kYear).ok());
}

}  // namespace
}  // namespace kerf
