// Names of a table's trees. An SQL table is one tree for its rows and one for each further index.
#pragma once

#include "engine.h"

#include <string>
#include <vector>

namespace millpond {

// Returns the name of the tree of rows, `database/table`, from the server's path of the table. Both
// names are in the server's encoding for file names, which has no '/'. For a temporary table it is
// `#tmp/table`, which no database can be called.
std::string table_name_of(const char *path);

// Tells whether a tree is one of a temporary table.
bool is_temporary(const std::string &tree);

// Returns the name of the tree of an index: `database/table/index`.
std::string index_name_of(const std::string &table, const KEY &key);

// Puts the names of all trees of a table into `names`, the tree of rows first. Returns a return
// code of the engine. There is no error if there are none.
int trees_of(const std::string &table, std::vector<std::string> *names);

// Puts the names of the trees of all partitions of a table into `names`. Returns a return code.
int trees_of_partitions(const std::string &table, std::vector<std::string> *names);

// Puts the names of all trees into `names`, sorted.
int all_trees(std::vector<std::string> *names);

// Puts the names of the trees that begin with a text into `names`, sorted, and looks at no others.
int trees_with_prefix(const std::string &prefix, std::vector<std::string> *names);

// Makes changes of trees, all or none. Returns a return code.
int make_changes(const std::vector<millpond_table_change> &changes);

// Lets a change of tables go on that the connection's transaction has read.
void release_own_tables();

// Returns a change of one tree. The name must live as long as the change.
millpond_table_change change_of(uint op, const std::string &name);

// Drops trees, all or none. Returns a return code.
int drop_trees(const std::vector<std::string> &names);

// Drops trees, all or none, without a wait: it fails if a transaction uses one of them.
int drop_unused_trees(const std::vector<std::string> &names);

}  // namespace millpond
