#include "server/front/front_settings.h"

namespace kerf {

void AddFrontSettings(OptionSet& options, FrontSettings& settings) {
  options.AddList(
      {"workers",
       "Of a front: a worker, as HOST:PORT or unix:PATH, or dns:HOST:PORT for all addresses of "
       "HOST, as of a headless Service; may be repeated. All fronts must write the same",
       "ADDRESS"},
      settings.workers, routing::ParseWorkerAddress);
  options.AddNumber(
      {"max-calls",
       "Of a front: calls that are no uploads at the same time; more are refused. To each of "
       "several workers at most three quarters of them"},
      settings.max_calls, 1, 1'000'000);
  options.AddNumber(
      {"max-worker-streams",
       "Of a front: uploads to one worker at the same time; more are refused, so that a worker "
       "that is stuck does not take all places. 0: three quarters of --max-streams, or all if "
       "there is one worker only"},
      settings.max_worker_streams, 0, 1'000'000);
  options.AddTime({"worker-check-ms",
                   "Of a front: a worker is asked for its health this often, and given as long to "
                   "answer; one that is gone less and less often, down to every 5 s"},
                  settings.worker_check);
  options.AddTime({"worker-refresh-ms", "Of a front: names of dns: are looked up this often"},
                  settings.worker_refresh);
  options.AddText(
      {"worker-tls-ca",
       "Of a front: speak TLS to workers, whose certificates have to be of one of these "
       "CAs (PEM) and of the host that --workers names; --tls-cert is shown to them. "
       "Read anew when it changes. Unix sockets stay as they are",
       "FILE"},
      settings.worker_tls_ca);
  options.AddText({"worker-tls-name",
                   "Of a front: the certificates of all workers have to be of this name (in the "
                   "place of the host)",
                   "NAME"},
                  settings.worker_tls_name);
}

}  // namespace kerf
