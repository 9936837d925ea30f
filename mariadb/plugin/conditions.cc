// Conditions that the server wants checked on index entries, before their rows are read: pushed index
// conditions and rowid filters. And reads of many ranges, whose rows are read in the order of the
// primary key.

#include "handler.h"

#include <utility>

namespace millpond {

// Takes a condition over the columns of a secondary index. The server names only columns that have
// HA_KEYREAD_ONLY in the index, but also those of the primary key, and those may be text. As in
// InnoDB, an index with virtual columns takes none. Returns what the server has to check itself.
Item *Handler::idx_cond_push(uint index, Item *condition) {
  if (open_.table().index(index).has_virtual || !open_.table().restores_primary()) return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = index;
  in_range_check_pushed_down = true;
  return nullptr;
}

// Takes a filter of primary keys. Returns false: it is checked here.
bool Handler::rowid_filter_push(Rowid_filter *filter) {
  pushed_rowid_filter = filter;
  return false;
}

// Checks what was pushed against an index entry. Returns 0 where its row is wanted, or
// HA_ERR_KEY_NOT_FOUND, and then the record has columns of an unwanted entry.
int Handler::check_pushed(const millpond_row &entry) {
  const bool condition = pushed_idx_cond && pushed_idx_cond_keyno == index_;
  const bool filter = pushed_rowid_filter && rowid_filter_is_active;
  if (!condition && !filter) return 0;
  // The condition and position() read the first record, whichever the row will be put into.
  if (int error = show_from_index(entry, table->record[0])) return error;
  // The cursor ends where the range ends. The server's own check of that compares columns of the
  // record, and text is not in it yet.
  key_range *end = std::exchange(end_range, nullptr);
  check_result_t result = condition ? handler_index_cond_check(this) : CHECK_POS;
  if (result == CHECK_POS && filter) result = handler_rowid_filter_check(this);
  end_range = end;
  if (result == CHECK_POS) return 0;
  // Levels above READ COMMITTED keep the lock of the entry, and never lock the row.
  if (!open_.keeps_locks()) unlock_entry();
  if (result == CHECK_ABORTED_BY_USER) return HA_ERR_ABORTED_BY_USER;
  return result == CHECK_ERROR ? HA_ERR_INTERNAL_ERROR : HA_ERR_KEY_NOT_FOUND;
}

// A scan that reads many ranges has a second handler, for the rows or for the index. It reads like
// this one.
handler *Handler::clone(const char *name, MEM_ROOT *memory) {
  handler *other = handler::clone(name, memory);
  if (other == nullptr) return nullptr;
  Handler *own = static_cast<Handler *>(other);
  own->lock_ = lock_;
  own->wait_ = wait_;
  return other;
}

int Handler::multi_range_read_init(RANGE_SEQ_IF *ranges, void *argument, uint count, uint mode,
                                   HANDLER_BUFFER *memory) {
  return many_ranges_.dsmrr_init(this, ranges, argument, count, mode, memory);
}

int Handler::multi_range_read_next(range_id_t *range) { return many_ranges_.dsmrr_next(range); }

// Rows are sorted only for plain reads: with locks, rows are locked in the order of the index.
ha_rows Handler::multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *argument, uint count,
                                             uint *bytes, uint *flags, Cost_estimate *cost) {
  many_ranges_.init(this, table);
  if (lock_ != MILLPOND_LOCK_NONE) *flags |= HA_MRR_USE_DEFAULT_IMPL;
  return many_ranges_.dsmrr_info_const(index, ranges, argument, count, bytes, flags, cost);
}

ha_rows Handler::multi_range_read_info(uint index, uint count, uint keys, uint parts, uint *bytes,
                                       uint *flags, Cost_estimate *cost) {
  many_ranges_.init(this, table);
  return many_ranges_.dsmrr_info(index, count, keys, parts, bytes, flags, cost);
}

int Handler::multi_range_read_explain_info(uint mode, char *text, size_t bytes) {
  return many_ranges_.dsmrr_explain_info(mode, text, bytes);
}

}  // namespace millpond
