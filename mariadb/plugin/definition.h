// Whether a table's definition, which the server keeps in a file of its own (.frm), is the one that its
// trees were made with. Each tree has in its metadata what of the definition its bytes depend on:
//
//   rows    1  u8 · stored columns u16 · for each: checksum u32, least u32 · checksum of the primary key u32
//   index   1  u8 · checksum u32
//
// Changes of the definition alone (ALGORITHM=INSTANT) leave all of it as it is: names are no part of
// it, and `least` is how many members an ENUM or a SET, or how many bytes a VARCHAR, has had at the
// beginning and has at least.
#pragma once

#include "server.h"

#include <string>
#include <vector>

namespace millpond {

// Returns the metadata of the tree of rows.
std::string definition_of_rows(const TABLE *table);

// Returns the metadata of the tree of an index that is not the primary key.
std::string definition_of_index(const TABLE *table, uint index);

// Appends to `misfits` how the definition differs from the one that a tree was made with: a sentence
// each. Of a tree without metadata nothing is known. `index` is MAX_KEY for the rows.
void compare_definition(const TABLE *table, uint index, const std::string &metadata,
                        std::vector<std::string> *misfits);

}  // namespace millpond
