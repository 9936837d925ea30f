// What all handlers of one table share: its trees, and how its rows and keys are encoded.
#pragma once

#include "engine.h"
#include "index_flags.h"
#include "key_codec.h"
#include "row_codec.h"
#include "statistics.h"
#include "table_memory.h"

#include <memory>
#include <string>
#include <vector>

namespace millpond {

constexpr uint HIDDEN_KEY_BYTES = 8;
// The engine's limit of a key with pages of 16 KiB.
constexpr uint MAX_KEY_BYTES = 3500;

// One index of a table, and its tree.
// What each row needs stands together.
struct Index {
  millpond_table *tree = nullptr;
  bool unique = false;
  bool has_virtual = false;  // A column of it is not stored in the row.
  IndexFlags flags;
  KeyCodec codec;
  std::string tree_name;
};

// The entry of a secondary index:
//   not unique         key: columns, primary key     value: length of the primary key, or nothing
//   unique             key: columns                  value: primary key
//   unique with NULL   key: columns, primary key     value: primary key
// The length is left out where all primary keys of the table have the same length.
class Table : public Handler_share {
 public:
  ~Table() override;

  // How the table's definition differs from the one that its trees were made with: a sentence each.
  const std::vector<std::string> &misfits() const { return misfits_; }

  // Prepares the codecs and opens the trees. Returns an error number of the server, or 0.
  int open(const char *path, const TABLE *table);

  // Returns null, or why a table cannot be one of this engine.
  static const char *refusal(const TABLE *table);

  bool has_primary() const { return primary_ != MAX_KEY; }
  uint primary() const { return primary_; }
  // Tells whether the primary key can be put back from each entry of a secondary index.
  bool restores_primary() const { return !has_primary() || indexes_[primary_].codec.restorable(); }
  uint indexes() const { return count_; }
  // Tells whether an index has columns that are not stored in the row.
  bool has_virtual() const { return has_virtual_; }
  const Index &index(uint i) const { return indexes_[i]; }
  millpond_table *rows() const { return rows_; }
  // Returns the tree of an index; the primary key's is the tree of rows.
  millpond_table *tree(uint i) const { return i == primary_ ? rows_ : indexes_[i].tree; }
  // Returns the name of an index's tree.
  const std::string &tree_name(uint i) const { return i == primary_ ? name_ : indexes_[i].tree_name; }
  const RowCodec &row() const { return row_; }
  const std::string &name() const { return name_; }

  // Appends the primary key of a record. Tables with a hidden key have none to append.
  void append_primary(const uchar *record, Buffer &out, Buffer &scratch) const {
    indexes_[primary_].codec.append_record(record, out, scratch);
  }

  // Finds the primary key in an entry of a secondary index. Returns false if the entry is damaged.
  bool primary_of(uint i, millpond_bytes key, millpond_bytes value, millpond_bytes *primary) const;

  // Appends the value of an entry of a secondary index.
  void append_entry_value(uint i, const uchar *primary, size_t bytes, Buffer &out) const;

  // Tells whether the entries of a secondary index have all columns in `columns`. Of an index with
  // virtual columns they need not have others than its own and those of the primary key: the server
  // names the columns too that the virtual ones are computed of.
  bool covers(uint i, const MY_BITMAP *columns) const;

  // Returns about how many rows the table has, and their bytes. The engine is asked when a tenth of
  // the rows has changed since, and once a second. So the plans of a small table follow from its
  // rows, not from the clock.
  void sizes(ulonglong *rows, ulonglong *bytes);

  // Makes the next call of sizes() ask the engine.
  void forget_sizes() { sizes_from_us_.store(0); }

  Statistics &statistics() { return statistics_; }
  const std::shared_ptr<TableMemory> &memory() const { return memory_; }

  // Closes and opens the trees again, after they were replaced by empty ones.
  int reopen_trees(const TABLE *table);

  // Hands out a hidden key. The first call after a start of the server finds the greatest one in the
  // tree, and goes beyond those of prepared transactions. Returns a return code.
  int next_hidden_key(ulonglong *next);

 private:
  int open_trees(const TABLE *table);
  int compare_definition_of(uint i, const TABLE *table);
  int find_renamed(const TABLE_SHARE *share, uint i);
  void free_trees();
  uint primary_bytes() const;

  std::string name_;
  std::unique_ptr<Index[]> indexes_;
  uint count_ = 0;
  uint primary_ = MAX_KEY;
  bool has_virtual_ = false;
  millpond_table *rows_ = nullptr;
  RowCodec row_;
  std::shared_ptr<TableMemory> memory_;
  std::atomic<ulonglong> sizes_from_us_{0};
  std::atomic<ulonglong> sizes_at_change_{0};  // How many changes had been counted then.
  std::atomic<ulonglong> size_rows_{0}, size_bytes_{0};
  Statistics statistics_;
  std::vector<std::string> misfits_;
};

}  // namespace millpond
