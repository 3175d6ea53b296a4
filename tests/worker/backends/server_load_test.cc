#include "worker/backends/server_load.h"

#include "gtest/gtest.h"

namespace nightshift {
namespace {

v1::ServerLoad Prometheus(absl::string_view text) {
  v1::ServerLoad load;
  ReadPrometheusLoad(text, &load);
  return load;
}
v1::ServerLoad JsonLoad(absl::string_view text) {
  v1::ServerLoad load;
  ReadJsonLoad(text, &load);
  return load;
}

TEST(ServerLoadTest, ReadsVllm) {
  const v1::ServerLoad load = Prometheus(
      "# HELP vllm:num_requests_running Number of requests.\n"
      "# TYPE vllm:num_requests_running gauge\n"
      "vllm:num_requests_running{engine=\"0\",model_name=\"a{b}\"} 5.0\n"
      "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 7.0\n"
      "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 12.0\n"
      "vllm:kv_cache_usage_perc{engine=\"0\"} 0.25\r\n"
      "vllm:kv_cache_usage_perc{engine=\"1\"} 0.75\n"
      "vllm:prefix_cache_queries_total{engine=\"0\"} 1000.0\n"
      "vllm:prefix_cache_hits_total{engine=\"0\"} 400.0 1790000000\n");
  EXPECT_EQ(load.running(), 12);
  EXPECT_EQ(load.waiting(), 12);
  EXPECT_DOUBLE_EQ(load.cache_used(), 0.5);
  EXPECT_DOUBLE_EQ(load.cache_hits(), 0.4);
  EXPECT_FALSE(load.has_slots());
}

TEST(ServerLoadTest, ReadsSglangTgiAndTriton) {
  v1::ServerLoad load = Prometheus(
      "sglang:num_running_reqs{model_name=\"m\"} 3\nsglang:num_queue_reqs 4\n"
      "sglang:token_usage 0.9\nsglang:cache_hit_rate 0.1\nsglang:gen_throughput 812.5\n");
  EXPECT_EQ(load.running(), 3);
  EXPECT_EQ(load.waiting(), 4);
  EXPECT_DOUBLE_EQ(load.cache_used(), 0.9);
  EXPECT_DOUBLE_EQ(load.cache_hits(), 0.1);
  EXPECT_DOUBLE_EQ(load.tokens_per_second(), 812.5);

  load = Prometheus("tgi_batch_current_size 6\ntgi_queue_size 0\n");
  EXPECT_EQ(load.running(), 6);
  EXPECT_TRUE(load.has_waiting());
  EXPECT_EQ(load.waiting(), 0);

  load = Prometheus(
      "nv_trt_llm_request_metrics{model=\"t\",request_type=\"waiting\",version=\"1\"} 9\n"
      "nv_trt_llm_request_metrics{model=\"t\",request_type=\"active\",version=\"1\"} 2\n"
      "nv_trt_llm_request_metrics{model=\"t\",request_type=\"max\",version=\"1\"} 64\n"
      "nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type=\"fraction\",model=\"t\"} 0.5\n"
      "nv_gpu_utilization{gpu_uuid=\"x\"} 0.8\n");
  EXPECT_EQ(load.running(), 2);
  EXPECT_EQ(load.slots(), 64);
  EXPECT_DOUBLE_EQ(load.cache_used(), 0.5);
  EXPECT_DOUBLE_EQ(load.gpu_used(), 0.8);
}

TEST(ServerLoadTest, ReadsLlamaCppsSlots) {
  const v1::ServerLoad load = JsonLoad(
      R"([{"id":0,"id_task":7,"is_processing":true},{"id":1,"id_task":-1,"is_processing":false},
          {"id":2,"id_task":3,"is_processing":true}])");
  EXPECT_EQ(load.slots(), 3);
  EXPECT_EQ(load.running(), 2);
}

TEST(ServerLoadTest, ReadsTheLastIterationOfTensorRt) {
  const v1::ServerLoad load = JsonLoad(
      R"([{"iter":1,"numActiveRequests":9},
          {"iter":2,"numActiveRequests":4,"numQueuedRequests":2,"maxNumActiveRequests":128,
           "kvCacheStats":{"usedNumBlocks":25,"maxNumBlocks":100}}])");
  EXPECT_EQ(load.running(), 4);
  EXPECT_EQ(load.waiting(), 2);
  EXPECT_EQ(load.slots(), 128);
  EXPECT_DOUBLE_EQ(load.cache_used(), 0.25);
}

TEST(ServerLoadTest, ReadsTheGpus) {
  v1::ServerLoad load;
  ReadNvidiaSmi("90, 40000, 81559, 350.25\n30, 20000, 81559, 149.75\n", &load);
  EXPECT_DOUBLE_EQ(load.gpu_used(), 0.6);
  EXPECT_NEAR(load.gpu_memory_used(), 60000.0 / 163118, 1e-9);
  EXPECT_DOUBLE_EQ(load.power_watts(), 500);

  load.Clear();
  ReadNvidiaSmi("10, 1, 2, [N/A]\n", &load);
  EXPECT_TRUE(load.has_gpu_used());
  EXPECT_FALSE(load.has_power_watts());
}

TEST(ServerLoadTest, TakesNothingFromWhatIsSomethingElse) {
  v1::ServerLoad load;
  for (const char* text :
       {"", "[]", "{}", "[1]", "null", "<html>vllm:num_requests_running 5</html>", "[[[[",
        "vllm:num_requests_running", "vllm:num_requests_running{", "vllm:num_requests_running NaN",
        "vllm:num_requests_runnings 4", "{} 5"}) {
    ReadPrometheusLoad(text, &load);
    ReadJsonLoad(text, &load);
    ReadNvidiaSmi(text, &load);
    EXPECT_EQ(load.ByteSizeLong(), 0u) << text;
  }
}

}  // namespace
}  // namespace nightshift
