// A fake of each kind of server, as its protocol is and not as one would like it: for tests of what
// differs between kinds. Answers are "Hello you" in three pieces.
//
// Words in the prompt make a server misbehave in its own way:
//   please-overload   it takes no more calls
//   please-context    the prompt is longer than it can be
//   please-vanish     it has no such model
//   please-break      streamed: an error after the first piece, inside HTTP 200
//   please-cut        streamed: the response ends after the first piece
#ifndef NIGHTSHIFT_TESTS_WORKER_BACKENDS_KIND_SERVERS_H_
#define NIGHTSHIFT_TESTS_WORKER_BACKENDS_KIND_SERVERS_H_

#include <atomic>
#include <string>

#include "tests/worker/backends/scripted_server.h"

namespace nightshift {

struct FakeServerOptions {
  std::string kind;  // a name of kinds.cc
  // While set, it says what such a server says while it loads its model.
  const std::atomic<bool>* loading = nullptr;
};
ScriptedServer::Handler FakeServer(FakeServerOptions options);

}  // namespace nightshift

#endif  // NIGHTSHIFT_TESTS_WORKER_BACKENDS_KIND_SERVERS_H_
