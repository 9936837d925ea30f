// Huge pages of the system for the engine's buffer pool.

#include "huge_pages.h"
#include "server.h"

#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

namespace millpond {

namespace {

// Huge pages only for memory that asks for them; Linux 6.18. Older headers do not have it.
constexpr unsigned long EXCEPT_ADVISED = 1UL << 1;

// Tells whether the system gives huge pages only to memory that asks for them.
bool only_advised() {
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == nullptr) return false;
  char line[64] = {0};
  bool advised = fgets(line, sizeof line, file) && strstr(line, "[madvise]");
  fclose(file);
  return advised;
}

}  // namespace

void allow_huge_pages() {
  if (prctl(PR_GET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL) != 1) return;
  if (prctl(PR_SET_THP_DISABLE, 1UL, EXCEPT_ADVISED, 0UL, 0UL) == 0) return;
  if (only_advised()) prctl(PR_SET_THP_DISABLE, 0UL, 0UL, 0UL, 0UL);
}

}  // namespace millpond
