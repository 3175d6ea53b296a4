#include "client/sim/sim_producer.h"

#include <algorithm>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"

namespace nightshift {
namespace {

constexpr absl::string_view kJson = "application/json";
constexpr absl::string_view kEventStream = "text/event-stream; charset=utf-8";
// A stream is a frame per token where the tokens take time, but not more often than this.
constexpr absl::Duration kFrameInterval = absl::Milliseconds(20);
constexpr int64_t kInstantFrames = 4;

}  // namespace

SimProducer::SimProducer(const SimServerOptions& options, GpuRunner* gpu, Clock& clock)
    : options_(options), gpu_(gpu), clock_(clock) {}

void SimProducer::Produce(SimCall& active) {
  if (gpu_ != nullptr) return ProduceOnGpu(active);
  SimTimeInfo time;
  if (options_.profile == SimProfile::kCerebras) {
    const SimCerebrasOptions& c = options_.cerebras;
    time.prompt = absl::Seconds(static_cast<double>(active.request.prompt_tokens) /
                                c.prompt_tokens_per_second);
    time.completion =
        absl::Seconds(static_cast<double>(active.steps() * active.choices()) / c.tokens_per_second);
  }
  if (active.request.stream) return ProduceStream(active, time);
  const absl::Duration total = time.prompt + time.completion;
  if (total > absl::ZeroDuration() && !active.exchange.Sleep(clock_.Now() + total)) {
    return active.Gone();
  }
  SendWhole(active, options_.profile == SimProfile::kCerebras ? &time : nullptr);
}

void SimProducer::SendWhole(SimCall& active, const SimTimeInfo* time) {
  const std::string body = RenderAnswer(active.request, active.length, time);
  if (active.fault == SimFault::kDropMid) {
    active.ended(200, "dropped");
    active.exchange.AnswerHalf(200, kJson, body);
    return;
  }
  active.Answer(kJson, body);
}

void SimProducer::ProduceStream(SimCall& active, const SimTimeInfo& time) {
  const SimStream stream(options_.profile, active.request, active.length);
  const bool timed = time.completion > absl::ZeroDuration() && active.length.tokens > 0;
  if (time.prompt > absl::ZeroDuration() && !active.exchange.Sleep(clock_.Now() + time.prompt)) {
    return active.Gone();
  }
  const absl::Duration per_token =
      timed ? time.completion / active.length.tokens : absl::ZeroDuration();
  if (!active.exchange.BeginStream(kEventStream, active.headers)) return active.Gone();
  if (!StreamTokens(active, stream, per_token)) return;
  active.EndStream(stream.Close(options_.profile == SimProfile::kCerebras ? &time : nullptr));
}

bool SimProducer::StreamTokens(SimCall& active, const SimStream& stream, absl::Duration per_token) {
  const int64_t tokens = active.length.tokens;
  const bool timed = per_token > absl::ZeroDuration();
  const int64_t frame =
      timed ? std::max<int64_t>(1, absl::ToInt64Nanoseconds(kFrameInterval) /
                                       std::max<int64_t>(1, absl::ToInt64Nanoseconds(per_token)))
            : (tokens + kInstantFrames - 1) / kInstantFrames;
  const MonotonicTime begun = clock_.Now();
  for (int64_t sent = 0; sent < tokens;) {
    const int64_t end = std::min(tokens, sent + frame);
    if (timed && !active.exchange.Sleep(begun + per_token * end)) {
      active.Gone();
      return false;
    }
    if (!SendDelta(active, stream, sent, end)) return false;
    sent = end;
  }
  return true;
}

// One frame for each choice, and what a directive or a fault has in mind for the middle of a
// stream. False: the stream is over, and `active` says how.
bool SimProducer::SendDelta(SimCall& active, const SimStream& stream, int64_t begin, int64_t end) {
  std::string frames;
  for (int64_t choice = 0; choice < stream.choices(); ++choice) {
    if (begin == 0) frames += stream.Open(choice);
    frames += stream.Delta(choice, begin, end);
  }
  if (!active.exchange.WriteChunk(frames)) {
    active.Gone();
    return false;
  }
  ++active.frames;
  const SimDirective& directive = active.request.directive;
  if (active.directive && directive.sse_error >= 0 && active.frames > directive.sse_error) {
    active.ended(200, "dropped");
    if (active.exchange.WriteChunk(stream.Failure())) active.exchange.EndStream();
    return false;
  }
  const bool cut = active.directive && directive.sse_cut >= 0 && active.frames > directive.sse_cut;
  if (cut || active.fault == SimFault::kDropMid) {
    active.Drop(200);
    return false;
  }
  return true;
}

void SimProducer::ProduceOnGpu(SimCall& active) {
  const int event_fd = active.exchange.event_fd();
  std::optional<uint64_t> call;
  if (event_fd >= 0) {
    call = gpu_->Submit(active.request.prompt_tokens * active.choices(),
                        std::max<int64_t>(1, active.steps()), active.request.stream, event_fd);
  }
  if (!call.has_value()) {
    const SimError error = {503, "The request queue is full.", "overloaded", "", "queue_full", {}};
    return active.Refuse(503, kJson, RenderError(options_.profile, error), {});
  }
  if (active.request.stream) {
    const SimStream stream(options_.profile, active.request, active.length);
    if (StreamGpuTokens(active, stream, *call)) {
      active.EndStream(stream.Close(nullptr));
    }
  } else {
    bool gone = false;
    while (!gone && !gpu_->Get(*call).finished) {
      gone = !active.exchange.WaitForEvent();
    }
    if (gone) {
      active.Gone();
    } else {
      SendWhole(active, nullptr);
    }
  }
  gpu_->Remove(*call);
}

bool SimProducer::StreamGpuTokens(SimCall& active, const SimStream& stream, uint64_t call) {
  int64_t sent = 0;
  bool begun = false;
  while (sent < active.length.tokens) {
    if (!active.exchange.WaitForEvent()) {
      active.Gone();
      return false;
    }
    const int64_t generated = std::min(gpu_->Get(call).generated, active.length.tokens);
    if (generated <= sent) continue;
    // Real servers send the head with the first token.
    if (!begun && !active.exchange.BeginStream(kEventStream, {})) {
      active.Gone();
      return false;
    }
    begun = true;
    if (!SendDelta(active, stream, sent, generated)) return false;
    sent = generated;
  }
  if (!begun && !active.exchange.BeginStream(kEventStream, {})) {
    active.Gone();
    return false;
  }
  return true;
}

}  // namespace nightshift
