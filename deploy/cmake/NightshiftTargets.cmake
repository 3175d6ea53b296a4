# How this project's targets are made: one place for warnings, sanitizers and labels.

set(NIGHTSHIFT_WARNINGS -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(NIGHTSHIFT_WARNINGS_ARE_ERRORS)
  list(APPEND NIGHTSHIFT_WARNINGS -Werror)
endif()
# Presets `asan`, `clang` and `tsan` compile several sources as one: what is in the anonymous
# namespace of one is then before the headers of the next.
set(NIGHTSHIFT_JOINED 1 CACHE STRING "How many sources of a target are compiled as one")
if(NIGHTSHIFT_JOINED GREATER 1)
  list(APPEND NIGHTSHIFT_WARNINGS -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND NIGHTSHIFT_WARNINGS -Wno-subobject-linkage)
  endif()
endif()

# nightshift_join(VAR NAME source…): in VAR what target NAME is compiled from. CMake's own unity builds
# name their sources by absolute paths: a compiler cache filled in one checkout misses in the next.
function(nightshift_join variable name)
  if(NOT NIGHTSHIFT_JOINED GREATER 1)
    set(${variable} ${ARGN} PARENT_SCOPE)
    return()
  endif()
  file(RELATIVE_PATH folder "${CMAKE_SOURCE_DIR}" "${CMAKE_CURRENT_SOURCE_DIR}")
  set(joined)
  set(text "")
  set(count 0)
  list(LENGTH ARGN all)
  foreach(source IN LISTS ARGN)
    string(APPEND text "#include \"${folder}/${source}\"\n")
    math(EXPR count "${count} + 1")
    math(EXPR more "${count} % ${NIGHTSHIFT_JOINED}")
    if(more EQUAL 0 OR count EQUAL all)
      set(file "${CMAKE_CURRENT_BINARY_DIR}/${name}.joined/${count}.cc")
      file(CONFIGURE OUTPUT "${file}" CONTENT "${text}" @ONLY)
      list(APPEND joined "${file}")
      set(text "")
    endif()
  endforeach()
  set(${variable} ${joined} PARENT_SCOPE)
endfunction()

add_library(nightshift_flags INTERFACE)
target_include_directories(nightshift_flags INTERFACE "${CMAKE_SOURCE_DIR}")
target_compile_options(nightshift_flags INTERFACE ${NIGHTSHIFT_WARNINGS})
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  target_compile_options(nightshift_flags INTERFACE -Wthread-safety -Werror=thread-safety)
endif()
# What a test's own source is compiled with beside: optimized and under UBSan, its expectations took
# three times as long to compile as what they test.
set(NIGHTSHIFT_TEST_OPTIONS)
if(NIGHTSHIFT_SANITIZE)
  set(NIGHTSHIFT_TEST_OPTIONS -O0 -fno-sanitize=undefined)
  add_compile_options(-fsanitize=${NIGHTSHIFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${NIGHTSHIFT_SANITIZE})
endif()

if(NIGHTSHIFT_FUZZ)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# The linker's time is a good part of a small rebuild; take a fast one where it is installed.
find_program(NIGHTSHIFT_MOLD mold)
if(NIGHTSHIFT_MOLD AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  add_link_options(-fuse-ld=mold)
elseif(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  find_program(NIGHTSHIFT_LLD ld.lld)
  if(NIGHTSHIFT_LLD)
    add_link_options(-fuse-ld=lld)
  endif()
endif()

# A cache filled in one checkout serves the next, wherever it lies.
find_program(NIGHTSHIFT_CCACHE ccache)
if(NIGHTSHIFT_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${CMAKE_COMMAND}" -E env "CCACHE_BASEDIR=${CMAKE_SOURCE_DIR}"
    CCACHE_NOHASHDIR=true CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_PCH_EXTSUM=true "${NIGHTSHIFT_CCACHE}")
endif()

# One of gRPC's targets asks for it; precompiled headers want the same of all.
add_compile_options(-pthread)

# Most of a compilation is reading the headers of the standard library, Abseil, Protocol Buffers and
# GoogleTest: with GCC they are read once (a file of the coordinator: 3.9 s without, 1.4 s with). The
# clang and fuzz presets build without.
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  set(NIGHTSHIFT_PCH ON)
endif()
set(NIGHTSHIFT_PCH_HEADERS
  <algorithm> <chrono> <cstdint> <deque> <functional> <map> <memory> <mutex> <optional> <random>
  <set> <string> <string_view> <unordered_map> <utility> <variant> <vector>
  <absl/container/flat_hash_map.h> <absl/container/flat_hash_set.h> <absl/status/statusor.h>
  <absl/strings/str_cat.h> <absl/strings/str_format.h> <absl/time/clock.h> <absl/time/time.h>
  <nightshift/v1/jobs.pb.h> <nightshift/v1/record.pb.h> <nightshift/v1/types.pb.h>
  <nightshift/v1/worker.pb.h>)

# nightshift_pch_holder(NAME header…): a target whose precompiled headers others reuse.
function(nightshift_pch_holder name)
  set(source "${CMAKE_CURRENT_BINARY_DIR}/${name}.cc")  # a target needs one
  file(TOUCH "${source}")
  add_library(${name} OBJECT "${source}")
  target_link_libraries(${name} PRIVATE nightshift_flags nightshift_proto absl::flat_hash_map)
  target_compile_options(${name} PRIVATE -fpch-preprocess)
  target_precompile_headers(${name} PRIVATE ${ARGN})
  if(NIGHTSHIFT_CCACHE)
    set_target_properties(${name} PROPERTIES CXX_COMPILER_LAUNCHER
      "${CMAKE_SOURCE_DIR}/deploy/cmake/pch_launcher.sh;${CMAKE_CXX_COMPILER_LAUNCHER}")
  endif()
endfunction()

function(nightshift_use_pch name holder)
  if(NIGHTSHIFT_PCH)
    target_compile_options(${name} PRIVATE -fpch-preprocess)
    target_precompile_headers(${name} REUSE_FROM ${holder})
  endif()
endfunction()

# nightshift_library(NAME SOURCES a.cc … [ALONE b.cc …] [PUBLIC target…] [PRIVATE target…])
# A static library of one layer. Third-party targets belong under PRIVATE. ALONE are sources with
# properties of their own, or whose names collide with their neighbours': never joined.
function(nightshift_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;ALONE;PUBLIC;PRIVATE" ${ARGN})
  nightshift_join(sources ${name} ${ARG_SOURCES})
  add_library(${name} STATIC ${sources} ${ARG_ALONE})
  target_link_libraries(${name} PUBLIC ${ARG_PUBLIC} PRIVATE nightshift_flags ${ARG_PRIVATE})
  target_include_directories(${name} PUBLIC "${CMAKE_SOURCE_DIR}")
  nightshift_use_pch(${name} nightshift_pch)
endfunction()

# nightshift_test(NAME LABELS unit [tsan] SOURCES a_test.cc … [ALONE b_test.cc …] DEPS target…)
# One GoogleTest program, one ctest entry; ctest -R NAME runs it, --gtest_filter narrows it. ALONE as
# above.
function(nightshift_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;ALONE;DEPS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  nightshift_join(sources ${name} ${ARG_SOURCES})
  add_executable(${name} ${sources} ${ARG_ALONE})
  target_link_libraries(${name} PRIVATE nightshift_flags ${ARG_DEPS} GTest::gmock GTest::gtest GTest::gtest_main Threads::Threads)
  target_compile_options(${name} PRIVATE ${NIGHTSHIFT_TEST_OPTIONS})
  nightshift_use_pch(${name} nightshift_test_pch)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT} PROCESSORS 2)
  foreach(label IN ITEMS unit tsan)
    if(label IN_LIST ARG_LABELS)
      add_dependencies(${label}_tests ${name})
    endif()
  endforeach()
  if(NOT unit IN_LIST ARG_LABELS)
    add_dependencies(system_tests ${name})
  endif()
endfunction()
