#include "server/metrics/metrics_settings.h"

#include "base/strings.h"
#include "server/net/listen_address.h"

namespace kerf {
namespace {

std::string CheckListen(const std::string& text) {
  if (text.empty()) return "";
  const auto parsed = ParseListenAddress(text);
  if (!parsed.ok()) return std::string(MessageOf(parsed.status()));
  return parsed->is_unix ? "'" + text + "': HTTP is served at HOST:PORT, as 127.0.0.1:9461" : "";
}

}  // namespace

void AddMetricsSettings(OptionSet& options, MetricsSettings& settings) {
  options.AddText(
      {"metrics-listen",
       "Answer /metrics (for Prometheus), /healthz, /readyz and / (a page for people) over HTTP at "
       "HOST:PORT, port 0 picks one; to anybody, over TLS with --tls-cert. Nothing if empty",
       "ADDRESS"},
      settings.listen, CheckListen);
  options.AddText({"metrics-client-ca",
                   "Show /metrics to those alone who show a certificate of one of these CAs (PEM); "
                   "/healthz and /readyz, which probes ask for, stay anybody's. Read anew when it "
                   "changes",
                   "FILE"},
                  settings.client_ca);
  options.AddText(
      {"metrics-ready-file",
       "Written once that is answered, which is before kerfd serves: the bound address", "FILE"},
      settings.ready_file);
}

std::string FindMetricsContradiction(const MetricsSettings& settings, bool has_tls) {
  if (settings.client_ca.empty()) return "";
  if (settings.listen.empty()) return "--metrics-client-ca is for --metrics-listen: add it";
  return has_tls ? "" : "--metrics-client-ca is for TLS: add --tls-cert and --tls-key";
}

}  // namespace kerf
