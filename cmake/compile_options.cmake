# Flags that every target of ours gets, as one interface target.
add_library(paceline_options INTERFACE)
target_include_directories(paceline_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
target_compile_definitions(paceline_options INTERFACE
  $<BUILD_INTERFACE:PACELINE_VERSION="${PROJECT_VERSION}">)
# Option structs are set by name, the rest keeps its default. Contracting a*b+c into one rounding
# depends on compiler and CPU; results must not.
set(flags -Wall -Wextra -Wconversion -Wshadow -Werror -Wno-missing-field-initializers
  -ffp-contract=off -fno-math-errno)
target_compile_options(paceline_options INTERFACE "$<BUILD_INTERFACE:${flags}>")
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(paceline_options INTERFACE -Wthread-safety)
endif()
if(CMAKE_UNITY_BUILD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # In a batch every source is an included file, where a class with a member of a local type looks like
  # one that several files see; preset dev still warns of it.
  target_compile_options(paceline_options INTERFACE $<BUILD_INTERFACE:-Wno-subobject-linkage>)
endif()
# Tests are compiled more often than they run.
set(PACELINE_TEST_OPTIONS $<$<CONFIG:RelWithDebInfo>:-O1>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # Of GCC 12's own strings, once they come from a precompiled header; the sanitizers watch the tests' memory.
  list(APPEND PACELINE_TEST_OPTIONS -Wno-array-bounds -Wno-restrict -Wno-stringop-overflow)
endif()
if(PACELINE_SANITIZE)
  target_compile_options(paceline_options INTERFACE
    -fsanitize=${PACELINE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer -g1)
  # Optimising what the sanitizers add takes longer than the tests run; but not for what they call.
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1 -DNDEBUG")
  set(PACELINE_TEST_OPTIONS -O0)
  if(PACELINE_SANITIZE MATCHES "undefined")
    # A check at every pointer for what the address sanitizer finds too.
    target_compile_options(paceline_options INTERFACE -fno-sanitize=null,object-size,vptr)
  endif()
  target_link_options(paceline_options INTERFACE -fsanitize=${PACELINE_SANITIZE})
endif()
