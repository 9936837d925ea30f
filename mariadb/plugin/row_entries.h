// The changes of entries that one changed row needs: of the row itself, and of its entries in
// indexes.
#pragma once

#include "hidden_key.h"
#include "table.h"

#include <memory>

namespace millpond {

// All are encoded in one piece of memory, which is kept from row to row.
class RowEntries {
 public:
  RowEntries() = default;
  RowEntries(const RowEntries &) = delete;
  RowEntries &operator=(const RowEntries &) = delete;

  // Returns how many changes a row of the table has at most: one of its own and two for each index,
  // or two and two.
  static uint most(const Table &table) { return 2 * (table.indexes() + 1); }

  // Makes room for the changes of a row of the table. Returns false if there is no memory.
  bool open(const Table *table);

  // Each of these begins with a new row. Where the table has no primary key, `hidden` is the row's.
  void insert(const uchar *record, const HiddenKey &hidden);
  // Returns false if both versions are the same.
  bool update(const uchar *before, const uchar *after, const HiddenKey &hidden);
  void remove(const uchar *record, const HiddenKey &hidden);

  uint count() const { return count_; }
  // Returns the index of a change, or MAX_KEY for the row itself.
  uint index(uint i) const { return entries_[i].index; }
  // Returns what a change does, a `millpond_row_op`.
  uint op(uint i) const { return entries_[i].op; }
  millpond_bytes key(uint i) const { return bytes_of(entries_[i].key); }
  millpond_bytes value(uint i) const { return bytes_of(entries_[i].value); }
  // Returns the bytes of all keys and values.
  size_t bytes() const { return bytes_.size(); }
  // Returns what happens to the row. One that moves is deleted and inserted, and counts as changed.
  uint row_op() const {
    const bool moves = count_ > 1 && entries_[1].index == MAX_KEY;
    return moves ? uint{MILLPOND_ROW_OP_PUT} : entries_[0].op;
  }

 private:
  // A piece of `bytes_`. That memory may move while more is appended.
  struct Piece {
    size_t at, bytes;
  };
  // A change of one entry: of an index, or MAX_KEY for the row itself.
  struct Entry {
    uint index;
    uint op;
    Piece key, value;
  };

  millpond_bytes bytes_of(Piece piece) const {
    return millpond::bytes_of(bytes_.data() + piece.at, piece.bytes);
  }
  void begin();
  Piece append_own_key(const uchar *record, const HiddenKey &hidden);
  Piece append_row(const uchar *record);
  Piece append_entry_key(uint index, const uchar *record, Piece primary);
  Piece append_entry_value(uint index, Piece primary);
  bool same(Piece a, Piece b) const;
  void add(uint index, uint op, Piece key, Piece value);
  void add_entry(uint index, const uchar *record, Piece primary);
  void update_entry(uint index, const uchar *before, const uchar *after, Piece old_primary,
                    Piece new_primary);

  const Table *table_ = nullptr;
  Buffer bytes_;
  Buffer scratch_;
  std::unique_ptr<Entry[]> entries_;
  uint count_ = 0;
};

}  // namespace millpond
