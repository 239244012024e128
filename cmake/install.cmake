# `cmake --install build/release --prefix DIR`: the programs, and the library that programs with
# models of their own link (find_package(Paceline), docs/own-models.md).
get_property(modules GLOBAL PROPERTY PACELINE_MODULES)
install(TARGETS paceline paceline-worker paceline-perf RUNTIME DESTINATION bin)
install(TARGETS ${modules} paceline_worker paceline_cli paceline_options
    paceline_rocksdb paceline_httplib
  EXPORT PacelineTargets
  ARCHIVE DESTINATION lib
  FILE_SET HEADERS DESTINATION include/paceline)
install(FILES apps/worker/paceline.h DESTINATION include/paceline)
install(FILES apps/worker/worker_main.h DESTINATION include/paceline/worker)
install(EXPORT PacelineTargets NAMESPACE Paceline:: DESTINATION lib/cmake/Paceline)
install(FILES cmake/PacelineConfig.cmake DESTINATION lib/cmake/Paceline)
