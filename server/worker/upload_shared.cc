// Files whose bytes lie in memory that the client shares: they are copied to where they are cut, as
// Data is out of a message, and all else is as with Data.
#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"
#include "base/strings.h"
#include "server/errors/errors.h"
#include "server/net/shared_memories.h"
#include "server/worker/upload.h"

namespace kerf {

void Upload::ShareData(const std::string& token) {
  if (context_.shared_memories == nullptr || token.empty()) return;
  shared_ = context_.shared_memories->Find(token);
  // Of another server, or gone: the client sends Data.
  if (shared_ == nullptr) return;
  session_.LetShareData();
}

Task<absl::Status> Upload::OnSharedData(const v1::SharedData& shared) {
  KERF_RETURN_IF_ERROR(session_.AddSharedData(shared.length_bytes()));
  if (!shared_->Holds(shared.offset_bytes(), shared.length_bytes())) {
    return MakeError(
        Reason::kBadField,
        Cat("shared_data.offset_bytes: ", shared.length_bytes(), " bytes from ",
            shared.offset_bytes(), " on are not within shared memory of ", shared_->size_bytes()),
        {{"field", "shared_data.offset_bytes"}});
  }
  KERF_RETURN_IF_ERROR(CountNamed(shared.length_bytes()));
  if (context_.metrics != nullptr) context_.metrics->shared_bytes.Add(shared.length_bytes());
  data_ = {.shared_offset = shared.offset_bytes(), .shared_bytes = shared.length_bytes()};
  return Take();
}

absl::Status Upload::ReadShared(std::span<std::uint8_t> out) const {
  const absl::Status status = shared_->Read(data_.shared_offset, out);
  if (status.ok()) return status;
  return MakeError(Reason::kContentMismatch,
                   Cat("the data of file ", session_.file_number(), " did not come: ",
                       MessageOf(status), "; send it again from its last durable offset"),
                   {{"file_number", Cat(session_.file_number())}});
}

}  // namespace kerf
