#include "worker/probe_loop.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/log.h"
#include "base/thread_name.h"
#include "worker/backends/http_url.h"
#include "worker/backends/key_file.h"
#include "worker/gpu_figures.h"

namespace nightshift {
namespace {

constexpr absl::Duration kProbeTimeout = absl::Seconds(3);
constexpr absl::Duration kAgainUntilReady = absl::Seconds(2);
constexpr absl::Duration kAgainOnceReady = absl::Seconds(30);
constexpr absl::Duration kLoadAgain = absl::Seconds(5);
constexpr absl::Duration kLookInterval = absl::Seconds(1);
// Of a list of models in a log line, in bytes.
constexpr size_t kModelsShownMax = 300;
// Silences in a row after which a backend that was ready is called broken.
constexpr int kSilencesMax = 3;

bool Same(const v1::BackendInfo& a, const v1::BackendInfo& b) {
  return a.state() == b.state() && a.detail() == b.detail() && a.kind() == b.kind() &&
         a.models_size() == b.models_size() &&
         std::equal(a.models().begin(), a.models().end(), b.models().begin());
}

void LogFound(const v1::BackendInfo& info, bool native) {
  LogInfo("backend ", info.name(), " is ready: ",
          info.detail().empty() ? "a server that does not say what it is" : info.detail(),
          native ? ", spoken to in its own protocol" : "", "; models: ",
          info.models_size() == 0 ? std::string("not listed")
                                  : absl::StrJoin(info.models(), ", ").substr(0, kModelsShownMax));
}

// An address of this machine means another server on each machine.
std::string ServerOf(const BackendSpec& spec) {
  for (const absl::string_view service : {"cerebras", "azure", "anthropic"}) {
    if (spec.kind == service) return "";
  }
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(spec.base_url);
  if (!url.ok()) return "";
  const std::string server = absl::StrCat(url->host, ":", url->port);
  if (!url->loopback) return server;
  char machine[256] = "";
  gethostname(machine, sizeof(machine) - 1);
  return absl::StrCat(machine, "/", server);
}

}  // namespace

v1::BackendInfo InfoOf(const BackendSpec& spec) {
  v1::BackendInfo info;
  info.set_name(spec.name);
  info.set_kind(spec.kind);
  info.set_url(spec.base_url);
  info.set_server(ServerOf(spec));
  info.set_state("starting");
  info.set_detail("not asked yet");
  return info;
}

ProbeJudge::ProbeJudge(const BackendSpec& spec) : info_(InfoOf(spec)) {}

const v1::BackendInfo& ProbeJudge::Take(const BackendProbe& probe) {
  const bool was_ready = info_.state() == "ready";
  if (!probe.reachable) {
    if (was_ready && ++silent_ < kSilencesMax) return info_;
    info_.set_state("broken");
    info_.set_detail(probe.detail.empty() ? "it cannot be reached" : probe.detail);
    return info_;
  }
  silent_ = 0;
  if (probe.key_refused) {
    info_.set_state("refused");
    info_.set_detail(probe.detail.empty() ? "it refuses the API key" : probe.detail);
    return info_;
  }
  if (probe.loading) {
    info_.set_state("starting");
    info_.set_detail(probe.detail.empty() ? "it is loading its model" : probe.detail);
    return info_;
  }
  info_.set_state("ready");
  if (!probe.kind.empty()) info_.set_kind(probe.kind);
  info_.set_detail(probe.server);
  info_.clear_models();
  for (const std::string& model : probe.models) info_.add_models(model);
  return info_;
}

absl::Duration ProbeJudge::NextIn() const {
  return info_.state() == "ready" && silent_ == 0 ? kAgainOnceReady : kAgainUntilReady;
}

ProbeLoop::ProbeLoop(BackendSpec spec, Events events)
    : spec_(std::move(spec)), events_(std::move(events)), thread_([this] { Run(); }) {}

ProbeLoop::~ProbeLoop() {
  Stop();
  thread_.join();
}

void ProbeLoop::Stop() {
  MutexLock lock(&mutex_);
  stopping_ = true;
  changed_.SignalAll();
}

bool ProbeLoop::LookAtKey() {
  if (spec_.api_key_file.empty()) return false;
  // Perhaps it is just being written: what is no key yet is looked at again.
  absl::StatusOr<std::string> key = ReadKeyFile(spec_.api_key_file);
  if (!key.ok() || *key == spec_.api_key) return false;
  spec_.api_key = *std::move(key);
  LogInfo("backend ", spec_.name, ": ", spec_.api_key_file,
          " holds another key, which is used now");
  events_.on_key(spec_.api_key);
  return true;
}

void ProbeLoop::Run() {
  NameThisThread("ns-probe");
  ProbeJudge judge(spec_);
  v1::BackendInfo told;
  for (;;) {
    const BackendProbe probe = ProbeBackend(spec_, kProbeTimeout);
    const v1::BackendInfo& info = judge.Take(probe);
    const MonotonicTime again_at = Clock::Real().Now() + judge.NextIn();
    if (Stopping()) return;
    if (!Same(info, told)) {
      if (info.state() == "ready" && told.state() != "ready") LogFound(info, probe.native);
      events_.on_info(info, probe.native);
      told = info;
    }
    MonotonicTime load_at = Clock::Real().Now();
    for (;;) {
      const MonotonicTime now = Clock::Real().Now();
      if (now >= again_at || LookAtKey()) break;
      if (info.state() == "ready" && now >= load_at) {
        TellLoad(info);
        load_at = Clock::Real().Now() + kLoadAgain;
      }
      if (!Rest(std::min(again_at, Clock::Real().Now() + kLookInterval))) return;
    }
  }
}

void ProbeLoop::TellLoad(const v1::BackendInfo& info) {
  v1::ServerLoad load = ProbeLoad(spec_, info.kind(), kProbeTimeout);
  const absl::StatusOr<HttpUrl> url = ParseHttpUrl(spec_.base_url);
  if (url.ok() && url->loopback) AddGpuFigures(&load);
  if (load.ByteSizeLong() > 0) events_.on_load(std::move(load));
}

bool ProbeLoop::Stopping() {
  MutexLock lock(&mutex_);
  return stopping_;
}

bool ProbeLoop::Rest(MonotonicTime until) {
  MutexLock lock(&mutex_);
  for (MonotonicTime now = Clock::Real().Now(); !stopping_ && now < until;
       now = Clock::Real().Now()) {
    changed_.WaitFor(&mutex_, until - now);
  }
  return !stopping_;
}

}  // namespace nightshift
