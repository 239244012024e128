# Presets without torch (sanitizers, clang-tidy) compile a folder in a few batches (CMAKE_UNITY_BUILD):
# less than half of the time. A file whose local names are also another's of its folder ("redefinition of")
# is compiled alone; it stands here. The release build compiles every file alone.
function(paceline_compile_alone folder)
  list(TRANSFORM ARGN PREPEND ${PROJECT_SOURCE_DIR}/${folder}/ OUTPUT_VARIABLE files)
  set_source_files_properties(${files} DIRECTORY ${PROJECT_SOURCE_DIR}/${folder} PROPERTIES
    SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

paceline_compile_alone(src/wire
  messages.cc safetensors.cc)
paceline_compile_alone(src/kernel
  attention.cc batch_norm.cc dropout.cc image_window.cc internal/listed_rows_avx2.cc
  internal/listed_rows_avx512.cc internal/nonzeros.cc internal/pack.cc internal/product_tile_avx2.cc
  internal/product_tile_avx512.cc matrix_product.cc reduce.cc skip_gram.cc batch_norm_test.cc channel_norm_test.cc image_window_test.cc kernel_test.cc
  matrix_product_test.cc skip_gram_test.cc)
paceline_compile_alone(src/algo
  table_partition.cc)
paceline_compile_alone(src/model
  vgg_spec.cc)
paceline_compile_alone(src/net
  loop.cc tcp.cc connection_test.cc mesh_test.cc)
paceline_compile_alone(src/store
  state_store_test.cc)
paceline_compile_alone(src/collective
  native_engine.cc)
paceline_compile_alone(src/ps
  job_spec.cc push_message.cc server_core_durable.cc snapshot_reader.cc snapshot_writer.cc
  server_core_crash_test.cc stale_store_test.cc)
paceline_compile_alone(src/data
  masked_batches.cc tar.cc masked_test.cc)
paceline_compile_alone(src/member
  coordinator.cc rendezvous.cc simulation_test_util.cc)
paceline_compile_alone(src/sparse
  simnet_bow_test.cc)
paceline_compile_alone(src/job
  launch_variables.cc machine.cc running_child.cc server_launcher.cc server_record.cc
  slurm_list.cc status_view.cc launch_environment_test.cc launch_servers_test.cc
  launch_test_util.cc train_config_test.cc)
paceline_compile_alone(src/bench
  recovery_cost.cc results.cc scaling.cc scaling_results.cc perf_case.cc perf_chart.cc
  perf_group.cc perf_results.cc perf_run.cc perf_table.cc ps_peers.cc ps_perf.cc table_perf.cc
  report_test.cc results_test.cc single_node_test.cc)
paceline_compile_alone(apps
  paceline/launch_command.cc paceline/perf_command.cc paceline/perf_ps_command.cc
  paceline/perf_table_command.cc paceline/recovery_command.cc)
