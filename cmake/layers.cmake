# The architecture, enforced: which folder of src/ may use which. tools/check_includes.py reads the
# same lines and checks the includes. docs/architecture.md draws the picture.
set(PACELINE_MAY_USE_base       "")
# L1: pure, no I/O, no clock, no thread
set(PACELINE_MAY_USE_wire       "base")
set(PACELINE_MAY_USE_kernel     "base")
set(PACELINE_MAY_USE_algo       "base")
set(PACELINE_MAY_USE_model      "base")
# L2
set(PACELINE_MAY_USE_net        "base;wire")
set(PACELINE_MAY_USE_codec      "base;wire;kernel")
set(PACELINE_MAY_USE_disk       "base;wire;kernel")
# L3
set(PACELINE_MAY_USE_store      "base;wire;net;disk")
set(PACELINE_MAY_USE_collective "base;wire;kernel;algo;net;codec")
set(PACELINE_MAY_USE_ps         "base;wire;kernel;algo;net;codec;disk")
set(PACELINE_MAY_USE_data       "base;wire;kernel;algo;disk")
# L4
set(PACELINE_MAY_USE_member     "base;wire;algo;net;store")
set(PACELINE_MAY_USE_sparse     "base;kernel;algo;data")
# L5
set(PACELINE_MAY_USE_job        "base;wire;kernel;algo;model;net;codec;disk;store;collective;ps;data;member;sparse")
set(PACELINE_MAY_USE_plan       "base;algo;model")
# L6
set(PACELINE_MAY_USE_bench      "base;wire;kernel;algo;model;net;codec;disk;store;collective;ps;data;member;sparse;job;plan")
set(PACELINE_MAY_USE_fused      "base;wire;kernel;algo;model;net;codec;disk;store;collective;ps;data;member;sparse;job")
set(PACELINE_MAY_USE_train      "base;wire;kernel;algo;model;net;codec;disk;store;collective;ps;data;member;sparse;job")

# What sanitizer builds make: every unit test and fuzz target, without the programs, which these do not run.
add_custom_target(unit_tests)

# paceline_module(NAME DEPS folder... SOURCES file... HEADERS file... TESTS file... LIBS target...)
# makes library paceline_NAME and, with TESTS, the executable NAME_test registered with ctest.
# LIBS stay private: no third-party type in a header outside the folder that owns the library.
function(paceline_module name)
  cmake_parse_arguments(A "" "TEST_TIMEOUT" "DEPS;SOURCES;HEADERS;TESTS;TEST_DEPS;LIBS" ${ARGN})
  if(NOT DEFINED PACELINE_MAY_USE_${name})
    message(FATAL_ERROR "layering: folder '${name}' has no line in cmake/layers.cmake")
  endif()
  foreach(dep IN LISTS A_DEPS)
    if(NOT dep IN_LIST PACELINE_MAY_USE_${name})
      message(FATAL_ERROR "layering: '${name}' may not depend on '${dep}'")
    endif()
  endforeach()
  add_library(paceline_${name} STATIC ${A_SOURCES})
  set_property(GLOBAL APPEND PROPERTY PACELINE_MODULES paceline_${name})
  # The test `headers` compiles each of them alone: in a batch its source comes behind others.
  target_sources(paceline_${name} PUBLIC
    FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/src FILES ${A_HEADERS})
  set_target_properties(paceline_${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON)
  list(TRANSFORM A_DEPS PREPEND paceline_ OUTPUT_VARIABLE deps)
  target_link_libraries(paceline_${name}
    PUBLIC paceline_options fmt::fmt Threads::Threads ${deps} PRIVATE ${A_LIBS})
  if(A_TESTS AND BUILD_TESTING)
    list(TRANSFORM A_TEST_DEPS PREPEND paceline_ OUTPUT_VARIABLE test_deps)
    add_executable(${name}_test ${A_TESTS})
    if(NOT name STREQUAL train)  # shares the precompiled header of its library
      target_compile_options(${name}_test PRIVATE ${PACELINE_TEST_OPTIONS})
      target_precompile_headers(${name}_test REUSE_FROM paceline_testing)
    endif()
    target_link_libraries(${name}_test PRIVATE paceline_${name} ${test_deps} paceline_testing
      ${A_LIBS})
    add_test(NAME ${name} COMMAND ${name}_test)
    add_dependencies(unit_tests ${name}_test)
    if(NOT A_TEST_TIMEOUT)
      set(A_TEST_TIMEOUT 120)
    endif()
    set_tests_properties(${name} PROPERTIES TIMEOUT ${A_TEST_TIMEOUT} LABELS unit)
  endif()
endfunction()
