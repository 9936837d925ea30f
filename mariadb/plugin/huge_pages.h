// Huge pages of the system for the engine's buffer pool.
#pragma once

namespace millpond {

// Lets memory that asks for huge pages have them, as the buffer pool does. The server turns them
// off for its whole process once it has started, because they make the memory of malloc grow. That
// stays so. Called when a connection first uses the engine: there is no call after the start.
void allow_huge_pages();

}  // namespace millpond
