#include "worker/backends/server_load.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace nightshift {
namespace {

using PlainJson = nlohmann::json;

// What the lines of one name add up to.
struct Sum {
  double total = 0;
  int lines = 0;
  double Mean() const { return total / lines; }
};

enum class Figure {
  kRunning,
  kWaiting,
  kSlots,
  kCacheUsed,     // a share
  kPromptTokens,  // with the next one: how many of the prompts' tokens the cache had
  kCachedTokens,
  kCacheHits,  // a share
  kGpuUsed,    // a share
  kTokensPerSecond,
};
constexpr int kFigures = 9;

struct MetricRow {
  const char* name;
  const char* label;  // must be among the labels as it is written; null = whatever they are
  Figure figure;
};

constexpr MetricRow kMetrics[] = {
    {"vllm:num_requests_running", nullptr, Figure::kRunning},
    {"vllm:num_requests_waiting", nullptr, Figure::kWaiting},
    {"vllm:kv_cache_usage_perc", nullptr, Figure::kCacheUsed},
    {"vllm:gpu_cache_usage_perc", nullptr, Figure::kCacheUsed},
    {"vllm:prefix_cache_queries_total", nullptr, Figure::kPromptTokens},
    {"vllm:prefix_cache_hits_total", nullptr, Figure::kCachedTokens},
    {"sglang:num_running_reqs", nullptr, Figure::kRunning},
    {"sglang:num_queue_reqs", nullptr, Figure::kWaiting},
    {"sglang:token_usage", nullptr, Figure::kCacheUsed},
    {"sglang:cache_hit_rate", nullptr, Figure::kCacheHits},
    {"sglang:gen_throughput", nullptr, Figure::kTokensPerSecond},
    {"llamacpp:requests_processing", nullptr, Figure::kRunning},
    {"llamacpp:requests_deferred", nullptr, Figure::kWaiting},
    {"llamacpp:kv_cache_usage_ratio", nullptr, Figure::kCacheUsed},
    {"llamacpp:predicted_tokens_seconds", nullptr, Figure::kTokensPerSecond},
    {"tgi_batch_current_size", nullptr, Figure::kRunning},
    {"tgi_queue_size", nullptr, Figure::kWaiting},
    {"nv_inference_pending_request_count", nullptr, Figure::kWaiting},
    {"nv_gpu_utilization", nullptr, Figure::kGpuUsed},
    {"nv_trt_llm_request_metrics", "request_type=\"active\"", Figure::kRunning},
    {"nv_trt_llm_request_metrics", "request_type=\"max\"", Figure::kSlots},
    {"nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type=\"fraction\"", Figure::kCacheUsed},
    {"trtllm_kv_cache_utilization", nullptr, Figure::kCacheUsed},
    {"trtllm_kv_cache_hit_rate", nullptr, Figure::kCacheHits},
};

// "name{labels} value [time]"; false for comments and what is none.
bool SplitMetric(absl::string_view line, absl::string_view* name, absl::string_view* labels,
                 double* value) {
  line = absl::StripAsciiWhitespace(line);
  if (line.empty() || line.front() == '#') return false;
  const size_t name_end = line.find_first_of("{ \t");
  if (name_end == absl::string_view::npos) return false;
  *name = line.substr(0, name_end);
  *labels = absl::string_view();
  absl::string_view rest = line.substr(name_end);
  if (rest.front() == '{') {
    const size_t close = rest.rfind('}');
    if (close == absl::string_view::npos) return false;
    *labels = rest.substr(1, close - 1);
    rest = rest.substr(close + 1);
  }
  rest = absl::StripLeadingAsciiWhitespace(rest);
  return absl::SimpleAtod(rest.substr(0, rest.find_first_of(" \t")), value) &&
         std::isfinite(*value);
}

double NumberAt(const PlainJson& object, const char* key, double otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : otherwise;
}

// A list of slots: busy where they say so, in the words of several versions.
void ReadSlots(const PlainJson& slots, v1::ServerLoad* load) {
  int busy = 0;
  for (const PlainJson& slot : slots) {
    const bool processing = slot.contains("is_processing") && slot["is_processing"].is_boolean()
                                ? slot["is_processing"].get<bool>()
                                : NumberAt(slot, "state", 0) != 0;
    if (processing) ++busy;
  }
  load->set_slots(static_cast<double>(slots.size()));
  load->set_running(busy);
}

// The last of TensorRT-LLM's iterations.
void ReadIteration(const PlainJson& iteration, v1::ServerLoad* load) {
  const double active = NumberAt(iteration, "numActiveRequests", -1);
  if (active >= 0) load->set_running(active);
  const double queued = NumberAt(iteration, "numQueuedRequests", -1);
  if (queued >= 0) load->set_waiting(queued);
  const double most = NumberAt(iteration, "maxNumActiveRequests", -1);
  if (most > 0) load->set_slots(most);
  if (const auto cache = iteration.find("kvCacheStats");
      cache != iteration.end() && cache->is_object()) {
    const double used = NumberAt(*cache, "usedNumBlocks", -1);
    const double all = NumberAt(*cache, "maxNumBlocks", 0);
    if (used >= 0 && all > 0) load->set_cache_used(used / all);
  }
}

}  // namespace

void ReadPrometheusLoad(absl::string_view text, v1::ServerLoad* load) {
  Sum sums[kFigures];
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    absl::string_view name;
    absl::string_view labels;
    double value = 0;
    if (!SplitMetric(line, &name, &labels, &value)) continue;
    for (const MetricRow& row : kMetrics) {
      if (name != row.name) continue;
      if (row.label != nullptr && !absl::StrContains(labels, row.label)) continue;
      Sum& sum = sums[static_cast<int>(row.figure)];
      sum.total += value;
      ++sum.lines;
    }
  }
  const auto sum_of = [&sums](Figure figure) -> const Sum& {
    return sums[static_cast<int>(figure)];
  };
  const auto told = [&](Figure figure) { return sum_of(figure).lines > 0; };
  if (told(Figure::kRunning)) load->set_running(sum_of(Figure::kRunning).total);
  if (told(Figure::kWaiting)) load->set_waiting(sum_of(Figure::kWaiting).total);
  if (told(Figure::kSlots)) load->set_slots(sum_of(Figure::kSlots).total);
  if (told(Figure::kCacheUsed)) load->set_cache_used(sum_of(Figure::kCacheUsed).Mean());
  if (told(Figure::kCacheHits)) load->set_cache_hits(sum_of(Figure::kCacheHits).Mean());
  if (told(Figure::kPromptTokens) && sum_of(Figure::kPromptTokens).total > 0) {
    load->set_cache_hits(sum_of(Figure::kCachedTokens).total / sum_of(Figure::kPromptTokens).total);
  }
  if (told(Figure::kGpuUsed)) load->set_gpu_used(sum_of(Figure::kGpuUsed).Mean());
  if (told(Figure::kTokensPerSecond)) {
    load->set_tokens_per_second(sum_of(Figure::kTokensPerSecond).total);
  }
}

void ReadJsonLoad(absl::string_view text, v1::ServerLoad* load) {
  const PlainJson document =
      PlainJson::parse(text.begin(), text.end(), nullptr, /*allow_exceptions=*/false);
  if (!document.is_array() || document.empty() || !document.back().is_object()) return;
  if (document.back().contains("id_task") || document.back().contains("is_processing")) {
    ReadSlots(document, load);
  } else {
    ReadIteration(document.back(), load);
  }
}

void ReadNvidiaSmi(absl::string_view text, v1::ServerLoad* load) {
  constexpr double kPercent = 100;
  double used = 0;
  double memory_used = 0;
  double memory = 0;
  double watts = 0;
  bool power_known = true;
  int gpus = 0;
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    const std::vector<absl::string_view> cells = absl::StrSplit(line, ',');
    double utilization = 0;
    double mine = 0;
    double total = 0;
    double draw = 0;
    if (cells.size() != 4 || !absl::SimpleAtod(cells[0], &utilization) ||
        !absl::SimpleAtod(cells[1], &mine) || !absl::SimpleAtod(cells[2], &total)) {
      continue;
    }
    // "[N/A]" where the GPU does not measure it.
    power_known = absl::SimpleAtod(cells[3], &draw) && power_known;
    used += utilization / kPercent;
    memory_used += mine;
    memory += total;
    watts += draw;
    ++gpus;
  }
  if (gpus == 0) return;
  load->set_gpu_used(used / gpus);
  if (memory > 0) load->set_gpu_memory_used(memory_used / memory);
  if (power_known) load->set_power_watts(watts);
}

}  // namespace nightshift
