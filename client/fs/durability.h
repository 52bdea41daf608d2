// How what was written is made to last: the calls behind it, which tests replace.
#pragma once

namespace kerf::agent {

// Each returns an errno, 0 if all went well. Thread-safe.
class Durability {
 public:
  virtual ~Durability() = default;

  // What closing a descriptor of the file would say, which stays open: a quota or a disk without
  // room of a file server shows here.
  virtual int Flush(int fd) = 0;
  // The file, or the entries of the directory.
  virtual int SyncFile(int fd) = 0;
  // Everything of the file system that `fd` lies on.
  virtual int SyncFileSystem(int fd) = 0;
  // Whether the file system tells who keeps its files when it is synced as a whole.
  virtual bool SyncsAsAWhole(int fd) = 0;
};

// The kernel's.
Durability& SystemDurability();

}  // namespace kerf::agent
