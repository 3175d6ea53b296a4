// The spool folders of workers that share a data folder and each choose one: FIRST, FIRST-2, … A
// worker that is started again alone would pass over what others have left, were it to take
// whichever is free first.
#ifndef NIGHTSHIFT_WORKER_SPOOL_SPOOL_FOLDERS_H_
#define NIGHTSHIFT_WORKER_SPOOL_SPOOL_FOLDERS_H_

#include <string>
#include <vector>

namespace nightshift {

// In the order in which to try them: those that hold answers come first. At most `count`.
std::vector<std::string> SpoolFoldersToTry(const std::string& first, int count);

// Those of `folders` that hold answers while no process has them open; call with one's own open. It
// opens each for a moment: a worker that starts just then takes another.
std::vector<std::string> SpoolFoldersLeft(const std::vector<std::string>& folders);

}  // namespace nightshift

#endif  // NIGHTSHIFT_WORKER_SPOOL_SPOOL_FOLDERS_H_
