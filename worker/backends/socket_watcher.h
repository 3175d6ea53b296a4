// Which sockets libcurl waits for, kept in an epoll set with as few system calls as can be.
//
// libcurl tells after every request that a connection, now idle, needs no watching, and before the
// next that it needs it again: two system calls per request. Sockets that were opened through
// Open() therefore stay in the set while they idle; if one then becomes ready (the server closed
// it) it is taken out. For sockets of other origin (libcurl's resolver makes some) everything is
// done at once, since nobody tells when they are closed. Not thread-safe.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_SOCKET_WATCHER_H_
#define NIGHTSHIFT_WORKER_BACKENDS_SOCKET_WATCHER_H_

#include <sys/epoll.h>

#include <cstdint>
#include <vector>

#include "absl/status/status.h"

namespace nightshift {

class SocketWatcher {
 public:
  SocketWatcher() = default;
  ~SocketWatcher();
  SocketWatcher(const SocketWatcher&) = delete;
  SocketWatcher& operator=(const SocketWatcher&) = delete;

  absl::Status Create();

  // Watches `fd` of the caller's own for reading, for good; Wait reports it with owner -1.
  absl::Status AddWakeup(int fd);

  // A socket was opened for libcurl, or is about to be closed.
  void Opened(int fd);
  void Closing(int fd);

  // libcurl waits for these EPOLL… events on `fd` on behalf of `owner`; 0 = for none.
  void Want(int fd, uint32_t events, int owner);

  struct Ready {
    int fd;
    uint32_t events;
    int owner;
  };
  // Waits at most `timeout_ms` (-1 = for ever) and returns what is ready. The list is good until
  // the next call; an entry must be passed to StillWanted before use, since handling an earlier one
  // may have closed its socket.
  const std::vector<Ready>& Wait(int timeout_ms);
  // The owner who wants the event; -1 = nobody any more.
  int StillWanted(const Ready& ready);

 private:
  struct Socket {
    uint32_t watched = 0;  // in the epoll set
    uint32_t wanted = 0;
    int owner = -1;
    bool ours = false;  // opened through Opened()
  };
  Socket& At(int fd);
  void Set(int fd, Socket& socket, uint32_t events);

  static constexpr int kEventsPerWait = 512;

  int epoll_ = -1;
  int wakeup_ = -1;
  std::vector<Socket> sockets_;  // by descriptor
  std::vector<epoll_event> events_ = std::vector<epoll_event>(kEventsPerWait);
  std::vector<Ready> ready_;
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_SOCKET_WATCHER_H_
