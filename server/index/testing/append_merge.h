// A merge operator of RocksDB for tests: puts one text behind the other.
#pragma once

#include <string>

#include "rocksdb/merge_operator.h"

namespace kerf {

class AppendMerge final : public rocksdb::AssociativeMergeOperator {
 public:
  bool Merge(const rocksdb::Slice& /*key*/, const rocksdb::Slice* existing,
             const rocksdb::Slice& added, std::string* sum,
             rocksdb::Logger* /*logger*/) const override {
    sum->clear();
    if (existing != nullptr) sum->append(existing->data(), existing->size());
    sum->append(added.data(), added.size());
    return true;
  }
  const char* Name() const override { return "append"; }
};

}  // namespace kerf
