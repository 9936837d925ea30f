// The changes of entries that one changed row needs.

#include "row_entries.h"

#include <new>

namespace millpond {

bool RowEntries::open(const Table *table) {
  table_ = table;
  entries_.reset(new (std::nothrow) Entry[most(*table)]);
  return entries_ != nullptr;
}

void RowEntries::begin() {
  bytes_.clear();
  count_ = 0;
}

// Appends the primary key of a record, or the hidden key.
RowEntries::Piece RowEntries::append_own_key(const uchar *record, const HiddenKey &hidden) {
  size_t at = bytes_.size();
  if (table_->has_primary()) {
    table_->append_primary(record, bytes_, scratch_);
  } else {
    bytes_.append(hidden.bytes(), HIDDEN_KEY_BYTES);
  }
  return Piece{at, bytes_.size() - at};
}

RowEntries::Piece RowEntries::append_row(const uchar *record) {
  size_t at = bytes_.size();
  table_->row().pack(record, bytes_);
  return Piece{at, bytes_.size() - at};
}

// Appends the key of an entry of a secondary index.
RowEntries::Piece RowEntries::append_entry_key(uint i, const uchar *record, Piece primary) {
  const Index &index = table_->index(i);
  size_t at = bytes_.size();
  bool null = index.codec.append_record(record, bytes_, scratch_);
  if (!index.unique || null) {
    bytes_.room(primary.bytes);
    bytes_.append(bytes_.data() + primary.at, primary.bytes);
  }
  return Piece{at, bytes_.size() - at};
}

RowEntries::Piece RowEntries::append_entry_value(uint i, Piece primary) {
  size_t at = bytes_.size();
  bytes_.room(primary.bytes);
  table_->append_entry_value(i, bytes_.data() + primary.at, primary.bytes, bytes_);
  return Piece{at, bytes_.size() - at};
}

bool RowEntries::same(Piece a, Piece b) const {
  return a.bytes == b.bytes && memcmp(bytes_.data() + a.at, bytes_.data() + b.at, a.bytes) == 0;
}

void RowEntries::add(uint index, uint op, Piece key, Piece value) {
  entries_[count_++] = Entry{index, op, key, value};
}

void RowEntries::add_entry(uint i, const uchar *record, Piece primary) {
  Piece key = append_entry_key(i, record, primary);
  // Only an index of unique columns can have an entry with this key already.
  uint op = table_->index(i).unique ? MILLPOND_ROW_OP_INSERT : MILLPOND_ROW_OP_PUT;
  add(i, op, key, append_entry_value(i, primary));
}

void RowEntries::update_entry(uint i, const uchar *before, const uchar *after, Piece old_primary,
                              Piece new_primary) {
  const bool moved = old_primary.at != new_primary.at;
  if (!moved && table_->index(i).codec.same_columns(before, after)) return;
  Piece old_key = append_entry_key(i, before, old_primary);
  Piece new_key = append_entry_key(i, after, new_primary);
  Piece value = append_entry_value(i, new_primary);
  if (same(old_key, new_key)) {
    // The entry of a unique index stays, but names the row's new primary key.
    if (moved && table_->index(i).unique) add(i, MILLPOND_ROW_OP_PUT, new_key, value);
    return;
  }
  add(i, MILLPOND_ROW_OP_DELETE, old_key, Piece{0, 0});
  add(i, table_->index(i).unique ? MILLPOND_ROW_OP_INSERT : MILLPOND_ROW_OP_PUT, new_key, value);
}

void RowEntries::insert(const uchar *record, const HiddenKey &hidden) {
  begin();
  Piece primary = append_own_key(record, hidden);
  add(MAX_KEY, MILLPOND_ROW_OP_INSERT, primary, append_row(record));
  for (uint i = 0; i < table_->indexes(); i++) {
    if (i != table_->primary()) add_entry(i, record, primary);
  }
}

bool RowEntries::update(const uchar *before, const uchar *after, const HiddenKey &hidden) {
  begin();
  Piece old_primary = append_own_key(before, hidden);
  Piece new_primary = append_own_key(after, hidden);
  if (same(old_primary, new_primary)) {
    // The server compares rows itself only if the statement reads all columns that it writes.
    if (table_->row().same(before, after)) return false;
    new_primary = old_primary;
    add(MAX_KEY, MILLPOND_ROW_OP_PUT, old_primary, append_row(after));
  } else {
    add(MAX_KEY, MILLPOND_ROW_OP_DELETE, old_primary, Piece{0, 0});
    add(MAX_KEY, MILLPOND_ROW_OP_INSERT, new_primary, append_row(after));
  }
  for (uint i = 0; i < table_->indexes(); i++) {
    if (i != table_->primary()) update_entry(i, before, after, old_primary, new_primary);
  }
  return true;
}

void RowEntries::remove(const uchar *record, const HiddenKey &hidden) {
  begin();
  Piece primary = append_own_key(record, hidden);
  add(MAX_KEY, MILLPOND_ROW_OP_DELETE, primary, Piece{0, 0});
  for (uint i = 0; i < table_->indexes(); i++) {
    if (i == table_->primary()) continue;
    add(i, MILLPOND_ROW_OP_DELETE, append_entry_key(i, record, primary), Piece{0, 0});
  }
}

}  // namespace millpond
