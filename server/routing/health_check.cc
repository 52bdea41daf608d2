#include "server/routing/health_check.h"

#include <grpcpp/client_context.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include <algorithm>
#include <utility>

#include "base/strings.h"
#include "grpc/health/v1/health.pb.h"
#include "kerf/v1/chunking.pb.h"
#include "kerf/v1/status.pb.h"
#include "server/net/grpc_deadline.h"

namespace kerf::routing {
namespace {

constexpr char kHealthMethod[] = "/grpc.health.v1.Health/Check";
constexpr char kStatusMethod[] = "/kerf.v1.StatusService/GetStatus";
constexpr char kCapabilitiesMethod[] = "/kerf.v1.ChunkingService/GetCapabilities";

// Of a peer's words: those of each worker are kept, and listed to whoever asks.
constexpr std::size_t kMaxWhyBytes = 200;

// ASCII: bytes that are no UTF-8 would make a list of workers that no client can read.
std::string Shown(const std::string& words) {
  std::string shown = words.substr(0, kMaxWhyBytes);
  std::replace_if(
      shown.begin(), shown.end(), [](char byte) { return byte < ' ' || byte > '~'; }, '?');
  return shown;
}

// Not empty, whatever the peer says: without a reason a worker passes for one that is alive.
std::string WhyOf(const grpc::Status& status) {
  const std::string why = Shown(status.error_message());
  if (!why.empty()) return why;
  return Cat("it answers with status ", static_cast<int>(status.error_code()), " and no message");
}

// What TLS has against a worker, as far as gRPC says so; empty: nothing.
std::string TlsTroubleOf(const grpc::Status& status, const std::string& tls_name) {
  const std::string& text = status.error_message();
  const auto says = [&](std::string_view words) { return text.find(words) != std::string::npos; };
  if (tls_name.empty() || status.error_code() != grpc::StatusCode::UNAVAILABLE) return "";
  if (says("Hostname Verification Check failed")) {
    return Cat("TLS: its certificate is not of ", tls_name);
  }
  if (says("certificate verify failed")) {
    return "TLS: its certificate is of no CA in --worker-tls-ca, not for servers, or its time is "
           "over";
  }
  if (says("wrong version number") || says("packet length too long")) {
    return "it does not speak TLS, and --worker-tls-ca asks for it";
  }
  if (says("handshake failed")) return Cat("TLS: ", Shown(text.substr(text.rfind("failed"))));
  // What it has against the front comes behind the front's half of the handshake, and gRPC keeps
  // it to itself.
  if (says("failed to connect") && (says("Endpoint read failed") || says("Socket closed"))) {
    return "it ends TLS: its --tls-client-ca has to know the front's --tls-cert, which has to be "
           "for clients, too; its log says more";
  }
  return "";
}

CheckOutcome OutcomeOf(const grpc::Status& status, const std::string& tls_name) {
  if (std::string trouble = TlsTroubleOf(status, tls_name); !trouble.empty()) {
    return {CheckResult::kUnreachable, "", std::move(trouble), "", /*is_tls=*/true};
  }
  switch (status.error_code()) {
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return {CheckResult::kSilent, "", "it does not answer", ""};
    case grpc::StatusCode::UNIMPLEMENTED:
      return {CheckResult::kNotServing, "",
              "it is no kerfd: it does not know the calls by which one is asked for its health and "
              "its name",
              ""};
    case grpc::StatusCode::FAILED_PRECONDITION:
      return {CheckResult::kNotServing, "", WhyOf(status), ""};
    default:
      return {CheckResult::kUnreachable, "", WhyOf(status), ""};
  }
}

using HealthCheckResponse = grpc::health::v1::HealthCheckResponse;

// Owned by the calls that it has under way.
class HealthCheck : public std::enable_shared_from_this<HealthCheck> {
 public:
  HealthCheck(std::shared_ptr<Worker> worker, std::chrono::milliseconds timeout,
              std::function<void(CheckOutcome)> done)
      : worker_(std::move(worker)),
        done_(std::move(done)),
        stub_(worker_->TakeCheckChannel()),
        deadline_(DeadlineIn(timeout)) {}

  void Start(bool ask_for_name) {
    health_context_.set_deadline(deadline_);
    stub_.UnaryCall(&health_context_, kHealthMethod, {}, &health_request_, &health_response_,
                    [self = shared_from_this(), ask_for_name](const grpc::Status& status) {
                      self->OnHealth(status, ask_for_name);
                    });
  }

 private:
  using Message = google::protobuf::MessageLite;

  void OnHealth(const grpc::Status& status, bool ask_for_name) {
    if (!status.ok()) return Fail(status);
    if (!ask_for_name) return AskForIndex();
    name_context_.set_deadline(deadline_);
    // Says to a front that it is not meant.
    name_context_.AddMetadata(kFrontMetadata, "1");
    stub_.UnaryCall(&name_context_, kCapabilitiesMethod, {}, &name_request_, &name_response_,
                    [self = shared_from_this()](const grpc::Status& name_status) {
                      if (!name_status.ok()) return self->Fail(name_status);
                      self->AskForIndex();
                    });
  }

  void Fail(const grpc::Status& status) { done_(OutcomeOf(status, worker_->tls_name())); }

  // Each time: it may be another one since it was last asked.
  void AskForIndex() {
    status_context_.set_deadline(deadline_);
    status_context_.AddMetadata(kFrontMetadata, "1");
    stub_.UnaryCall(&status_context_, kStatusMethod, {}, &status_request_, &status_response_,
                    [self = shared_from_this()](const grpc::Status& status) {
                      // A kerfd from before there was this call knows no more than its health.
                      const bool is_old = status.error_code() == grpc::StatusCode::UNIMPLEMENTED;
                      if (!status.ok() && !is_old) return self->Fail(status);
                      self->OnAll();
                    });
  }

  // A kerfd that knows of its index has two reasons not to serve: it drains, or is without it.
  bool IsBack(bool says_why) const { return says_why && status_response_.has_index(); }

  void OnAll() {
    CheckOutcome outcome{CheckResult::kServing, name_response_.worker(), "",
                         Shown(status_response_.index().identity())};
    const std::string trouble = Shown(status_response_.index().trouble());
    // What it says of itself is younger than its health, which may have changed meanwhile.
    const bool says_why = status_response_.has_counts() && !status_response_.counts().draining();
    if (says_why && !trouble.empty()) {
      outcome.result = CheckResult::kWithoutIndex;
      outcome.why = trouble;
    } else if (health_response_.status() != HealthCheckResponse::SERVING && !IsBack(says_why)) {
      outcome.result = CheckResult::kNotServing;
      outcome.why = "it says that it does not serve";
    }
    done_(std::move(outcome));
  }

  const std::shared_ptr<Worker> worker_;
  const std::function<void(CheckOutcome)> done_;
  grpc::TemplatedGenericStub<Message, Message> stub_;
  // Of all calls together.
  const gpr_timespec deadline_;
  grpc::ClientContext health_context_;
  grpc::health::v1::HealthCheckRequest health_request_;
  HealthCheckResponse health_response_;
  grpc::ClientContext name_context_;
  v1::GetCapabilitiesRequest name_request_;
  v1::GetCapabilitiesResponse name_response_;
  grpc::ClientContext status_context_;
  v1::GetStatusRequest status_request_;
  v1::GetStatusResponse status_response_;
};

}  // namespace

void StartHealthCheck(const std::shared_ptr<Worker>& worker, bool ask_for_name,
                      std::chrono::milliseconds timeout, std::function<void(CheckOutcome)> done) {
  std::make_shared<HealthCheck>(worker, timeout, std::move(done))->Start(ask_for_name);
}

}  // namespace kerf::routing
