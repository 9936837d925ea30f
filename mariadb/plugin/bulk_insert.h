// The rows of a new table, as ALTER TABLE copies them: loaded in the order of their keys, each page
// written once and without undo.
//
// Rows that come in the order of the primary key go straight into the load of their tree. All other
// entries are sorted first. The loads make new trees under names of their own; at the end they take
// the places of the empty trees, all in one step. A crash before it leaves the empty trees; the new
// ones are dropped with the table.
#pragma once

#include "sorter.h"
#include "table.h"

namespace millpond {

class BulkInsert {
 public:
  // A row that is there twice, and the index that has it twice.
  struct Duplicate {
    uint index = 0;
    Buffer primary, value;
  };

  // Tells whether a tree is a new one that has not been put in place.
  static bool is_new(const std::string &tree);

  // Tells whether a table has no rows, so that it can be filled.
  static bool is_empty(const Table &table);

  BulkInsert(const Table &table, const TABLE *server_table);
  ~BulkInsert();

  // The results of the calls: a return code of the engine, or the negated errno of a failed
  // temporary file.

  // Adds an entry of an index, or of the rows for MAX_KEY. MILLPOND_RC_KEY_EXISTS: the row is there
  // already. MILLPOND_RC_MISUSE: the rows come in no order that can be loaded any more; nothing was
  // added.
  int add(uint index, millpond_bytes key, millpond_bytes value);

  // Loads everything and puts the new trees in place. MILLPOND_RC_KEY_EXISTS: `duplicate` says which
  // row. After an error nothing has changed.
  int finish(THD *thd, Duplicate *duplicate);

 private:
  struct Tree {
    Tree(std::string tree_name, std::string tree_definition, size_t memory)
        : name(std::move(tree_name)), definition(std::move(tree_definition)), sorter(memory) {}
    std::string name;
    std::string definition;  // The metadata of the tree.
    Sorter sorter;
    millpond_load *load = nullptr;
    bool has_last = false;  // Entries have been loaded; `last` is the key of the last one.
    Buffer last;
    bool unique = false;
    bool made = false;      // The new tree is there, under its own name.

    std::string new_name() const;
  };

  Tree &tree(uint index) { return *trees_[index == MAX_KEY ? rows_ : index]; }
  int begin_load(Tree &tree);
  int load_sorted(THD *thd, Tree &tree, Buffer *twice);
  int find_row(millpond_bytes primary, Duplicate *duplicate);
  int put_in_place();
  void drop_new();

  const Table &table_;
  uint rows_;
  std::vector<std::unique_ptr<Tree>> trees_;
};

}  // namespace millpond
