// Conditions that the server wants checked on index entries, before their rows are read: pushed
// index conditions and rowid filters (RowReader checks them). And reads of many ranges, whose rows
// are read in the order of the primary key.

#include "ha_millpond.h"

namespace millpond {

// Takes a condition over the columns of a secondary index. The server names only columns that have
// HA_KEYREAD_ONLY in the index, but also those of the primary key, and those may be text. As in
// InnoDB, an index with virtual columns takes none. Returns what the server has to check itself.
Item *ha_millpond::idx_cond_push(uint index, Item *condition) {
  if (open_.table().index(index).has_virtual || !open_.table().restores_primary()) return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = index;
  in_range_check_pushed_down = true;
  return nullptr;
}

// Takes a filter of primary keys. Returns false: it is checked by the engine.
bool ha_millpond::rowid_filter_push(Rowid_filter *filter) {
  pushed_rowid_filter = filter;
  return false;
}

// A scan that reads many ranges has a second handler, for the rows or for the index. It reads like
// this one.
handler *ha_millpond::clone(const char *name, MEM_ROOT *memory) {
  handler *other = handler::clone(name, memory);
  if (other == nullptr) return nullptr;
  static_cast<ha_millpond *>(other)->locks_.choose_as(locks_);
  return other;
}

int ha_millpond::multi_range_read_init(RANGE_SEQ_IF *ranges, void *argument, uint count, uint mode,
                                       HANDLER_BUFFER *memory) {
  return many_ranges_.dsmrr_init(this, ranges, argument, count, mode, memory);
}

int ha_millpond::multi_range_read_next(range_id_t *range) { return many_ranges_.dsmrr_next(range); }

// Rows are sorted only for plain reads: with locks, rows are locked in the order of the index.
ha_rows ha_millpond::multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *argument, uint count,
                                                 uint *bytes, uint *flags, Cost_estimate *cost) {
  many_ranges_.init(this, table);
  if (locks_.locks()) *flags |= HA_MRR_USE_DEFAULT_IMPL;
  return many_ranges_.dsmrr_info_const(index, ranges, argument, count, bytes, flags, cost);
}

ha_rows ha_millpond::multi_range_read_info(uint index, uint count, uint keys, uint parts, uint *bytes,
                                           uint *flags, Cost_estimate *cost) {
  many_ranges_.init(this, table);
  return many_ranges_.dsmrr_info(index, count, keys, parts, bytes, flags, cost);
}

int ha_millpond::multi_range_read_explain_info(uint mode, char *text, size_t bytes) {
  return many_ranges_.dsmrr_explain_info(mode, text, bytes);
}

}  // namespace millpond
