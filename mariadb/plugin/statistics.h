// Statistics of one table for the server's optimizer: how many rows have the same key, and how
// large the indexes are.
//
// They are taken from a few dozen leaf pages of each index, the same ones each time. So they need
// not be stored: what a start of the server finds is what was there before. They are taken again
// when a tenth of the table has changed, and by ANALYZE TABLE.
#pragma once

#include "engine.h"

#include <atomic>
#include <mutex>
#include <vector>

namespace millpond {

class Table;

class Statistics {
 public:
  // Counts rows that were inserted, changed or deleted.
  void note_changes(ulonglong rows) {
    changes_.fetch_add(rows, std::memory_order_relaxed);
    all_changes_.fetch_add(rows, std::memory_order_relaxed);
  }

  // Returns how many changed rows were counted since the table was opened.
  ulonglong all_changes() const { return all_changes_.load(std::memory_order_relaxed); }

  // Makes them stale, because the table is another one.
  void forget() { changes_.store(ULONGLONG_MAX / 2, std::memory_order_relaxed); }

  // Tells whether a table is so small that each change of it counts.
  bool counts_every_change() const { return limit_.load(std::memory_order_relaxed) < 1000; }

  // Takes them again if they are stale, or `always`. Returns a return code of the engine.
  int renew(Table &table, const TABLE *form, bool always);

  // Puts them into the keys of an open table, unless `seen` says that it has them already.
  void show(TABLE *form, ulonglong *seen) const;

  // Returns the bytes of all secondary indexes.
  ulonglong index_bytes() const { return index_bytes_.load(std::memory_order_relaxed); }

 private:
  // For each number of leading columns of an index, how many rows have the same ones.
  using RowsPerKey = std::vector<double>;

  bool stale() const {
    return version_.load(std::memory_order_acquire) == 0 ||
           changes_.load(std::memory_order_relaxed) > limit_.load(std::memory_order_relaxed);
  }

  mutable std::mutex mutex_;            // Protects `indexes_`.
  std::vector<RowsPerKey> indexes_;
  std::mutex renewing_;                 // Held while they are taken again.
  std::atomic<ulonglong> version_{0};   // How often they were taken.
  std::atomic<ulonglong> changes_{0};   // Changed rows since.
  std::atomic<ulonglong> all_changes_{0};
  std::atomic<ulonglong> limit_{0};     // So many changed rows make them stale.
  std::atomic<ulonglong> index_bytes_{0};
};

}  // namespace millpond
