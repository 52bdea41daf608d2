// A file system below RocksDB that fails when it is told to.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

namespace kerf {

// What the file system does.
enum class Fault : std::uint8_t {
  kNone,
  kNoSpace,
  kBroken,
  kSyncBroken,
  // Table files cannot be read.
  kTablesUnreadable,
  // The same, and not opened, for want of file descriptors.
  kNoDescriptors,
  // It says of no file how long it is.
  kNoSizes,
};

// Holds up writes to table files while it is shut.
class TableGate {
 public:
  void SetOpen(bool is_open) {
    {
      const std::lock_guard lock(mutex_);
      is_open_ = is_open;
    }
    changed_.notify_all();
  }
  void Pass() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_open_ = true;
};

inline bool IsTable(const std::string& name) { return name.ends_with(".sst"); }
inline bool IsLog(const std::string& name) { return name.ends_with(".log"); }

class FaultyFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  // `gate` and `before` may be null.
  FaultyFile(std::unique_ptr<rocksdb::FSWritableFile> file, const std::atomic<Fault>& fault,
             TableGate* gate, const std::function<void()>* before)
      : FSWritableFileOwnerWrapper(std::move(file)), fault_(fault), gate_(gate), before_(before) {}

  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           rocksdb::IODebugContext* context) override {
    if (const rocksdb::IOStatus status = WriteFault(); !status.ok()) return status;
    return FSWritableFileOwnerWrapper::Append(data, options, context);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice& data, const rocksdb::IOOptions& options,
                           const rocksdb::DataVerificationInfo& info,
                           rocksdb::IODebugContext* context) override {
    if (const rocksdb::IOStatus status = WriteFault(); !status.ok()) return status;
    return FSWritableFileOwnerWrapper::Append(data, options, info, context);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions& options,
                         rocksdb::IODebugContext* context) override {
    if (fault_.load() == Fault::kSyncBroken) return rocksdb::IOStatus::IOError("test: fsync");
    return FSWritableFileOwnerWrapper::Sync(options, context);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions& options,
                          rocksdb::IODebugContext* context) override {
    if (fault_.load() == Fault::kSyncBroken) return rocksdb::IOStatus::IOError("test: fsync");
    return FSWritableFileOwnerWrapper::Fsync(options, context);
  }

 private:
  rocksdb::IOStatus WriteFault() const {
    if (gate_ != nullptr) gate_->Pass();
    if (before_ != nullptr && *before_) (*before_)();
    switch (fault_.load()) {
      case Fault::kNoSpace:
        return rocksdb::IOStatus::NoSpace("test: disk full");
      case Fault::kBroken:
        return rocksdb::IOStatus::IOError("test: write");
      default:
        return rocksdb::IOStatus::OK();
    }
  }

  const std::atomic<Fault>& fault_;
  TableGate* const gate_;
  const std::function<void()>* const before_;
};

inline rocksdb::IOStatus ReadFault(Fault fault) {
  switch (fault) {
    case Fault::kTablesUnreadable:
      return rocksdb::IOStatus::IOError("test: read");
    case Fault::kNoDescriptors:
      return rocksdb::IOStatus::IOError("test: read", std::strerror(EMFILE));
    default:
      return rocksdb::IOStatus::OK();
  }
}

class UnreadableFile : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  UnreadableFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, const std::atomic<Fault>& fault)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), fault_(fault) {}

  rocksdb::IOStatus Read(std::uint64_t offset, std::size_t size, const rocksdb::IOOptions& options,
                         rocksdb::Slice* result, char* scratch,
                         rocksdb::IODebugContext* context) const override {
    if (const rocksdb::IOStatus fault = ReadFault(fault_); !fault.ok()) return fault;
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, context);
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest* requests, std::size_t count,
                              const rocksdb::IOOptions& options,
                              rocksdb::IODebugContext* context) override {
    if (const rocksdb::IOStatus fault = ReadFault(fault_); !fault.ok()) return fault;
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, context);
  }

 private:
  const std::atomic<Fault>& fault_;
};

// Files that it has opened outlive nothing of it.
class FaultyFileSystem : public rocksdb::FileSystemWrapper {
 public:
  FaultyFileSystem() : FileSystemWrapper(rocksdb::FileSystem::Default()) {}
  const char* Name() const override { return "faulty"; }

  rocksdb::IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                                    std::unique_ptr<rocksdb::FSWritableFile>* file,
                                    rocksdb::IODebugContext* context) override {
    std::unique_ptr<rocksdb::FSWritableFile> real;
    const rocksdb::IOStatus status =
        FileSystemWrapper::NewWritableFile(name, options, &real, context);
    if (!status.ok()) return status;
    *file = std::make_unique<FaultyFile>(std::move(real), fault_, IsTable(name) ? &gate_ : nullptr,
                                         IsLog(name) ? &before_log_ : nullptr);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string& name,
                                        const rocksdb::FileOptions& options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                        rocksdb::IODebugContext* context) override {
    if (fault_ == Fault::kNoDescriptors) return ReadFault(fault_);
    std::unique_ptr<rocksdb::FSRandomAccessFile> real;
    const rocksdb::IOStatus status =
        FileSystemWrapper::NewRandomAccessFile(name, options, &real, context);
    if (status.ok()) *file = std::make_unique<UnreadableFile>(std::move(real), fault_);
    return status;
  }

  rocksdb::IOStatus GetFileSize(const std::string& name, const rocksdb::IOOptions& options,
                                std::uint64_t* size, rocksdb::IODebugContext* context) override {
    if (fault_ == Fault::kNoSizes) {
      return rocksdb::IOStatus::IOError("test: stat", std::strerror(EACCES));
    }
    return FileSystemWrapper::GetFileSize(name, options, size, context);
  }

  void Set(Fault fault) { fault_ = fault; }
  // `call` is made before each write to a log, by the thread that writes: nobody sees it yet. Set
  // while nothing is written.
  void BeforeLogWrites(std::function<void()> call) { before_log_ = std::move(call); }
  TableGate& table_gate() { return gate_; }

 private:
  std::atomic<Fault> fault_{Fault::kNone};
  TableGate gate_;
  std::function<void()> before_log_;
};

}  // namespace kerf
