#include "base/tls/certificate_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "base/tls/certificate_maker.h"

namespace kerf {
namespace {

TEST(CertificateFactsTest, NamesAreThoseThatItWasMadeWith) {
  const std::vector<std::string> names = {"backup.example", "*.pods.example", "10.1.2.3",
                                          "2001:db8::7", "kerf://client/laptop"};
  const auto made = MakeOwnCertificate(
      {.common_name = "all", .names = names, .valid_for = std::chrono::hours(24)});
  ASSERT_TRUE(made.ok()) << made.status();
  const auto facts = ReadCertificateFacts(made->certificate);
  ASSERT_TRUE(facts.ok()) << facts.status();
  EXPECT_EQ(facts->names, names);
  const std::int64_t now = std::time(nullptr);
  EXPECT_LT(facts->begins_at_s, now);
  EXPECT_NEAR(static_cast<double>(facts->expires_at_s), static_cast<double>(now + 86'400), 60);
}

TEST(CertificateFactsTest, WhatIsNoCertificateIsRefused) {
  const auto made = MakeOwnCertificate({.common_name = "none"});
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(ReadCertificateFacts(made->certificate)->names.empty());
  EXPECT_FALSE(ReadCertificateFacts(made->key).ok());
  EXPECT_FALSE(ReadCertificateFacts("").ok());
}

TEST(CertificateFactsTest, ACaIsKnownByItsKeyAndNotByItsName) {
  constexpr std::chrono::hours kDay{24};
  const auto ca = MakeCertificateAuthority("CA", kDay);
  const auto namesake = MakeCertificateAuthority("CA", kDay);
  ASSERT_TRUE(ca.ok() && namesake.ok());
  const auto made = MakeCertificate({.common_name = "one"}, *ca);
  ASSERT_TRUE(made.ok()) << made.status();
  EXPECT_TRUE(IsSignedBy(made->certificate, ca->certificate));
  EXPECT_FALSE(IsSignedBy(made->certificate, namesake->certificate));
  EXPECT_FALSE(IsSignedBy(ca->certificate, made->certificate));
  EXPECT_FALSE(IsSignedBy("", ca->certificate));
}

TEST(CertificateFactsTest, TimesAreOfUtc) {
  EXPECT_EQ(FormatCertificateTime(0), "1970-01-01 00:00 UTC");
  EXPECT_EQ(FormatCertificateTime(1'000'000'000), "2001-09-09 01:46 UTC");
}

}  // namespace
}  // namespace kerf
