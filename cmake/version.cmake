# PACELINE_COMMIT: the commit that is built, or "unknown" outside a checkout. Configuring again
# after each commit keeps it true; git appends to logs/HEAD then.
set(PACELINE_COMMIT unknown)
find_program(PACELINE_GIT git)
if(PACELINE_GIT)
  execute_process(COMMAND ${PACELINE_GIT} -C ${PROJECT_SOURCE_DIR} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE RESULT_VARIABLE failed ERROR_QUIET)
  if(NOT failed)
    set(PACELINE_COMMIT ${commit})
  endif()
endif()
if(EXISTS ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/.git/logs/HEAD)
endif()
