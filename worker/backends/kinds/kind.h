// What differs between kinds of inference servers, as data where it can be. The kinds that speak
// OpenAI's routes are rows of a table (kinds.cc); a server's own protocol is a NativeDialect in a
// file of its own. README.md in worker/backends says how to add one.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_KINDS_KIND_H_
#define NIGHTSHIFT_WORKER_BACKENDS_KINDS_KIND_H_

#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "worker/backends/kinds/native_dialect.h"
#include "worker/backends/stream_assembler.h"

namespace nightshift {

// In which header the key goes.
enum class KeyHeader {
  kBearer,   // Authorization: Bearer KEY
  kApiKey,   // api-key: KEY
  kXApiKey,  // x-api-key: KEY
};

struct BackendKind {
  const char* name;    // as --backend and the configuration file spell it
  const char* server;  // as people call it

  KeyHeader key_header = KeyHeader::kBearer;
  const char* header = nullptr;             // one more that goes with every call; null = none
  StreamEnd stream_end = StreamEnd::kDone;  // of OpenAI's routes; NativeDialect has its own

  // Asked whether it is ready, where the list of models does not tell.
  const char* health_path = "/health";
  int not_ready_status = 503;

  // Where it tells its load (server_load.h), in Prometheus' form or JSON; null = nowhere.
  const char* load_path = nullptr;
  const char* load_path_more = nullptr;

  // Deployments of one resource, each at a path with its name, and `?api-version=` behind.
  bool deployments = false;

  // Its own protocol; null = OpenAI's routes alone.
  const NativeDialect* native = nullptr;
  // Whether the own protocol is meant by a URL without a path.
  bool native_by_default = false;
};

// Null when there is none of that name. The rows live for ever.
const BackendKind* FindKind(absl::string_view name);

// The row of a server that was recognized by its answers, by what people call it; null = none.
const BackendKind* FindKindOfServer(absl::string_view server);

absl::Span<const BackendKind> AllKinds();

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_KINDS_KIND_H_
