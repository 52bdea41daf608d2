// fault_fs BACKING MOUNT_POINT SOCKET UNSYNCED: serves the folder BACKING at MOUNT_POINT, with
// faults that are asked for at SOCKET (control.h). UNSYNCED is an empty folder of the same file
// system. All absolute. Runs in the foreground until it is asked to end; as root.
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/strings.h"
#include "e2e/fault_fs/control.h"
#include "e2e/fault_fs/file_system.h"

int main(int argc, char** argv) {
  if (argc != 5) {
    std::fputs("fault_fs BACKING MOUNT_POINT SOCKET UNSYNCED\n", stderr);
    return 2;
  }
  // A test that dies leaves no mount behind.
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  // What is not synced is held open.
  rlimit open_files{};
  getrlimit(RLIMIT_NOFILE, &open_files);
  open_files.rlim_cur = open_files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &open_files);
  umask(0);
  auto listener = kerf::fault_fs::Control::Listen(argv[3]);
  if (!listener.ok() || chdir(argv[1]) != 0) {
    std::fprintf(stderr, "fault_fs: %s, or no folder %s\n", listener.status().ToString().c_str(),
                 argv[1]);
    return EXIT_FAILURE;
  }
  kerf::fault_fs::FileSystem files(argv[4]);
  const kerf::fault_fs::Control control(*std::move(listener), files);
  return kerf::fault_fs::Serve(files, argv[2]);
}
