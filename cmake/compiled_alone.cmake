# All presets but dev compile a folder in batches (CMAKE_UNITY_BUILD): less than half of the time. A file
# whose local names are also another's of its batch ("redefinition of") gets more telling ones; if that
# would read worse, it stands here and is compiled alone.
function(paceline_compile_alone folder)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE files)
  set_source_files_properties(${files} DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

paceline_compile_alone(src/kernel
  batch_norm_test.cc channel_norm_test.cc image_window_test.cc kernel_test.cc matrix_product_test.cc
  skip_gram_test.cc)
# linux/tcp.h and netinet/tcp.h, which others include, define the same names.
paceline_compile_alone(src/net
  internal/tcp_use.cc)
