// The engine's return codes as the server's error numbers.
#pragma once

#include "engine.h"

#include <string>

namespace millpond {

// Numbers from here on are the plugin's own: this plus a return code of the engine. The handler's
// get_error_message() has their text.
constexpr int OWN_ERRORS = 1000;

// Returns the server's number for a return code other than OK, and tells the server what the
// failure has done to the session's transaction. `thd` may be null.
int server_error_of_failure(THD *thd, int rc);

// The same for any return code.
inline int server_error(THD *thd, int rc) {
  return rc == MILLPOND_RC_OK ? 0 : server_error_of_failure(thd, rc);
}

// Returns the text of the last failure of this thread. If the database has stopped, it is the cause,
// and what to do.
std::string last_error_text(int error);

// Reports an error of this thread with the engine's words, where the server would only print its
// number. Returns the error.
int reported(int error);

// Reports an error of the plugin's own. The server's message would cut the text off.
void print_own_error(int error, const char *text, myf flags);

// Returns why the database has stopped, and what to do; nothing if it goes on.
std::string failure();

}  // namespace millpond
