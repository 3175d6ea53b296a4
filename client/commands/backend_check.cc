#include "client/commands/backend_check.h"

#include <algorithm>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/clock.h"
#include "base/units.h"
#include "client/cli/suggest.h"
#include "client/output/text_width.h"

namespace nightshift {
namespace {

constexpr absl::Duration kProbeAgainAfter = absl::Seconds(1);
// More models than this are not listed in a message.
constexpr size_t kModelsShownMax = 12;

std::string ShownName(const BackendSpec& spec) {
  return spec.kind == "sim" ? spec.name : spec.base_url;
}

void ProbeAll(std::vector<CheckedBackend>& checked) {
  std::vector<std::thread> threads;
  for (CheckedBackend& one : checked) {
    if (one.usable()) continue;
    threads.emplace_back([&one] { one.probe = ProbeBackend(*one.spec, kProbeTimeout); });
  }
  for (std::thread& thread : threads) thread.join();
}

std::string WhyNot(const CheckedBackend& one) {
  if (one.probe.key_refused) {
    return absl::StrCat(ShownName(*one.spec), ": the API key was refused",
                        one.probe.detail.empty() ? "" : absl::StrCat(" (", one.probe.detail, ")"));
  }
  if (one.probe.loading)
    return absl::StrCat(ShownName(*one.spec), ": still loading its model",
                        one.probe.detail.empty() ? "" : absl::StrCat(" (", one.probe.detail, ")"));
  return absl::StrCat(ShownName(*one.spec), ": ",
                      one.probe.detail.empty() ? "cannot be reached" : one.probe.detail,
                      "\n  tried: GET ", one.spec->base_url, "/v1/models");
}

std::string Listed(const std::set<std::string>& models) {
  std::vector<std::string> shown;
  for (const std::string& model : models) {
    if (shown.size() == kModelsShownMax) break;
    shown.push_back(Printable(model));
  }
  if (models.size() <= kModelsShownMax) return absl::StrJoin(shown, ", ");
  const size_t more = models.size() - kModelsShownMax;
  return absl::StrCat(absl::StrJoin(shown, ", "), " and ", more, " more");
}

}  // namespace

bool CheckBackends(const std::vector<BackendSpec>& specs, absl::Duration patience, Console& console,
                   std::vector<CheckedBackend>* checked, Failure* failure) {
  checked->clear();
  for (const BackendSpec& spec : specs) checked->push_back({&spec, {}});
  const Clock& clock = Clock::Real();
  const MonotonicTime until = clock.Now() + patience;
  const auto usable = [](const CheckedBackend& one) { return one.usable(); };
  bool said = false;
  while (true) {
    ProbeAll(*checked);
    if (std::any_of(checked->begin(), checked->end(), usable)) break;
    std::vector<std::string> reasons;
    bool waiting_helps = false;
    for (const CheckedBackend& one : *checked) {
      reasons.push_back(WhyNot(one));
      waiting_helps |= !one.probe.key_refused;
    }
    if (!waiting_helps) {
      *failure = UsageFailure(absl::StrJoin(reasons, "\n"), "");
      failure->code = "key_refused";
      failure->hint = "check the variable or the file that holds the key";
      return false;
    }
    if (clock.Now() >= until) {
      failure->exit = ExitCode::kUnreachable;
      failure->code = "backend_unreachable";
      failure->message = absl::StrJoin(reasons, "\n");
      failure->hint = patience == absl::ZeroDuration()
                          ? "is the server still loading its model? --wait-for-backend 30m waits "
                            "for it"
                          : absl::StrCat("waited ", HumanDuration(patience),
                                         "; nothing was handed in, run the same command again");
      return false;
    }
    if (!said) {
      console.Note(absl::StrCat("Waiting up to ", HumanDuration(patience), " for ",
                                absl::StrJoin(reasons, "; "), "\n"));
      said = true;
    }
    std::this_thread::sleep_for(
        absl::ToChronoMilliseconds(std::min(kProbeAgainAfter, until - clock.Now())));
  }
  for (const CheckedBackend& one : *checked) {
    if (!one.usable())
      console.Note(absl::StrCat("warning: ", WhyNot(one), "\n  going on with the others\n"));
  }
  return true;
}

std::string BackendLine(const CheckedBackend& backend) {
  if (backend.spec->kind == "sim" && backend.spec->name == "sim")
    return "sim: simulated answers, no model is called";
  std::string line = ShownName(*backend.spec);
  if (backend.spec->name != line && line.find(backend.spec->name) == std::string::npos)
    line = absl::StrCat(backend.spec->name, " (", line, ")");
  std::vector<std::string> facts;
  if (!backend.probe.server.empty()) facts.push_back(backend.probe.server);
  if (backend.probe.models.size() == 1) facts.push_back(Printable(backend.probe.models[0]));
  if (backend.probe.models.size() > 1)
    facts.push_back(absl::StrCat(backend.probe.models.size(), " models"));
  return facts.empty() ? line : absl::StrCat(line, ": ", absl::StrJoin(facts, ", "));
}

bool ChooseModel(const std::vector<CheckedBackend>& checked, const ModelCounts& models,
                 std::string* default_model, Failure* failure) {
  std::set<std::string> listed;
  bool anything_goes = false;
  for (const CheckedBackend& one : checked) {
    if (!one.usable()) continue;
    listed.insert(one.probe.models.begin(), one.probe.models.end());
    anything_goes |= one.probe.models.empty();
  }
  for (const auto& [model, count] : models) {
    if (model.empty() && count > 0) {
      if (anything_goes || listed.empty()) continue;  // the server's own choice
      if (listed.size() == 1) {
        *default_model = *listed.begin();
        continue;
      }
      *failure = UsageFailure(
          absl::StrCat(WithCommas(count), count == 1 ? " request names" : " requests name",
                       " no model, and there are ", listed.size(), ": ", Listed(listed)),
          absl::StrCat("choose one, e.g. --model ", *listed.begin()));
      failure->code = "model_needed";
      return false;
    }
    if (anything_goes || listed.count(model) != 0) continue;
    const std::string nearest =
        Nearest(model, std::vector<std::string>(listed.begin(), listed.end()));
    *failure = UsageFailure(
        absl::StrCat("no backend has the model \"", Printable(model), "\" that ", WithCommas(count),
                     count == 1 ? " request names" : " requests name",
                     "\n  models there: ", Listed(listed)),
        nearest.empty() ? "--model sets the model of requests that name none"
                        : absl::StrCat("did you mean ", nearest, "?"));
    failure->code = "unknown_model";
    return false;
  }
  return true;
}

}  // namespace nightshift
