#include "worker/http/metered_link.h"

#include <utility>

namespace nightshift {

void MeteredLink::Send(v1::WorkerMessage message) {
  if (message.has_report()) metrics_.OnReport(message.report());
  for (const v1::AttemptResult& result : message.results().results()) {
    if (result.sequence() <= counted_) continue;
    counted_ = result.sequence();
    metrics_.OnResult(result);
  }
  inner_.Send(std::move(message));
}

}  // namespace nightshift
