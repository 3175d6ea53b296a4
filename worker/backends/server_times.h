// What a server says of its own time for one answer.
#ifndef NIGHTSHIFT_WORKER_BACKENDS_SERVER_TIMES_H_
#define NIGHTSHIFT_WORKER_BACKENDS_SERVER_TIMES_H_

namespace nightshift {

// In milliseconds; negative = not told.
struct ServerTimes {
  double queue_ms = -1;       // waiting, loading the model included
  double prompt_ms = -1;      // reading the prompt
  double completion_ms = -1;  // writing the answer; with servers that tell only one figure, both

  bool known() const { return queue_ms >= 0 || prompt_ms >= 0 || completion_ms >= 0; }
};

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_BACKENDS_SERVER_TIMES_H_
