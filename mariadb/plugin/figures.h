// The engine's figures, with their names.
#pragma once

#include "engine.h"

#include <string>
#include <vector>

namespace millpond {

struct Figure {
  std::string name;
  double value;
  bool counter;      // Else a level.
  std::string help;  // Empty for a figure of a family.
};

// Returns all figures as they are now.
std::vector<Figure> all_figures();

// The syncs of one kind of file for one reason. Times are microseconds.
struct Syncs {
  std::string file, reason, help;
  ulonglong count, waiters, total, p50, p95, p99, longest;
};

// Returns the syncs since the start, by file and reason.
std::vector<Syncs> all_syncs();

inline std::string text_of(millpond_bytes bytes) {
  return std::string(reinterpret_cast<const char *>(bytes.ptr), bytes.len);
}

}  // namespace millpond
