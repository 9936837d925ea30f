// How many rows statements have inserted, changed, deleted and read, by table. An index entry is no row.
#pragma once

#include "server.h"

#include <array>
#include <atomic>

namespace millpond {

struct RowCounts {
  ulonglong inserted = 0, updated = 0, deleted = 0, read = 0;

  ulonglong sum() const { return inserted + updated + deleted + read; }
  void add(const RowCounts &more) {
    inserted += more.inserted;
    updated += more.updated;
    deleted += more.deleted;
    read += more.read;
  }
};

// Counts of many threads. Few of them share a cache line.
class SharedRowCounts {
 public:
  void add(my_thread_id thread, const RowCounts &more);
  RowCounts get() const;

 private:
  struct alignas(64) Part {
    std::atomic<ulonglong> inserted{0}, updated{0}, deleted{0}, read{0};
  };
  std::array<Part, 8> parts_;
};

}  // namespace millpond
