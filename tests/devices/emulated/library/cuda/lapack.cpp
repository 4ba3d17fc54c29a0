// The addresses of LAPACK's functions.
#include "../lapack.h"

#include <map>
#include <stdexcept>

namespace emulator {

static std::map<std::string, void *> functions;

API void emulator_set_lapack(const char *name, void *function) { functions[name] = function; }

void *lapack_function(const std::string &name) {
    auto found = functions.find(name);
    if (found == functions.end())
        throw std::runtime_error("the emulator was given no LAPACK function " + name);
    return found->second;
}

}  // namespace emulator
