// How many rows statements have inserted, changed, deleted and read, by table. An index entry is no row.
// And how much redo their changes took, with those of index entries.
#pragma once

#include "engine.h"
#include "server.h"

#include <array>
#include <atomic>

namespace millpond {

struct RowCounts {
  ulonglong inserted = 0, updated = 0, deleted = 0, read = 0, redo_bytes = 0;

  bool is_empty() const { return inserted + updated + deleted + read + redo_bytes == 0; }
  void add(const RowCounts &more) {
    inserted += more.inserted;
    updated += more.updated;
    deleted += more.deleted;
    read += more.read;
    redo_bytes += more.redo_bytes;
  }
};

// Counts the redo of what the thread does as long as this lives.
class RedoCount {
 public:
  explicit RedoCount(RowCounts *counts) : counts_(counts), before_(millpond_redo_bytes_of_thread()) {}
  ~RedoCount() { counts_->redo_bytes += millpond_redo_bytes_of_thread() - before_; }
  RedoCount(const RedoCount &) = delete;
  RedoCount &operator=(const RedoCount &) = delete;

 private:
  RowCounts *counts_;
  ulonglong before_;
};

// Counts of many threads. Few of them share a cache line.
class SharedRowCounts {
 public:
  void add(my_thread_id thread, const RowCounts &more);
  RowCounts get() const;

 private:
  struct alignas(64) Part {
    std::atomic<ulonglong> inserted{0}, updated{0}, deleted{0}, read{0}, redo_bytes{0};
  };
  std::array<Part, 8> parts_;
};

}  // namespace millpond
