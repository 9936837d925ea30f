// How many rows statements have inserted, changed, deleted and read, by table.

#include "row_counts.h"

namespace millpond {

namespace {

void add_to(std::atomic<ulonglong> &count, ulonglong more) {
  if (more > 0) count.fetch_add(more, std::memory_order_relaxed);
}

}  // namespace

void SharedRowCounts::add(my_thread_id thread, const RowCounts &more) {
  Part &part = parts_[thread % parts_.size()];
  add_to(part.inserted, more.inserted);
  add_to(part.updated, more.updated);
  add_to(part.deleted, more.deleted);
  add_to(part.read, more.read);
  add_to(part.redo_bytes, more.redo_bytes);
}

RowCounts SharedRowCounts::get() const {
  RowCounts all;
  for (const Part &part : parts_) {
    all.inserted += part.inserted.load(std::memory_order_relaxed);
    all.updated += part.updated.load(std::memory_order_relaxed);
    all.deleted += part.deleted.load(std::memory_order_relaxed);
    all.read += part.read.load(std::memory_order_relaxed);
    all.redo_bytes += part.redo_bytes.load(std::memory_order_relaxed);
  }
  return all;
}

}  // namespace millpond
