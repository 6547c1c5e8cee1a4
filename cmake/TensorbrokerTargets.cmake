# tb_library, tb_executable, tb_test: one target a folder, sources listed, arrows as link lists.

function(tb_compile_options target)
  target_compile_features(${target} PUBLIC cxx_std_20)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_options(${target} PRIVATE -Wall -Wextra -Wpedantic -Wno-missing-field-initializers)
  if(TENSORBROKER_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    target_compile_options(${target} PRIVATE -Wno-restrict)  # false on "literal" + string at -O3: GCC bug 105651
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_FLAGS MATCHES "-fsanitize=")
    target_compile_options(${target} PRIVATE -Wno-maybe-uninitialized)  # false where checks break up what it follows
  endif()
  if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
    target_compile_options(${target} PRIVATE -Wthread-safety)
  endif()
endfunction()

# The sanitizers' builds spend most of their time on reading the same headers again; with TENSORBROKER_PCH they read these
# once. Other presets do without, so that a file that forgets an include still fails there.
function(tb_precompile target headers)
  if(NOT TENSORBROKER_PCH)
    return()
  endif()
  set(pch tensorbroker_pch_${headers})
  if(NOT TARGET ${pch})
    add_library(${pch} OBJECT ${PROJECT_SOURCE_DIR}/cmake/pch/empty.cc)
    target_precompile_headers(${pch} PRIVATE ${PROJECT_SOURCE_DIR}/cmake/pch/${headers}.h)
    target_link_libraries(${pch} PRIVATE fmt::fmt absl::statusor)
    if(headers STREQUAL tests)
      target_link_libraries(${pch} PRIVATE GTest::gtest GTest::gmock)
      separate_arguments(flags NATIVE_COMMAND "${TENSORBROKER_TEST_FLAGS}")
    else()
      set_target_properties(${pch} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    endif()
    tb_compile_options(${pch})
    target_compile_options(${pch} PRIVATE ${flags} -pthread)
    if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
      target_compile_options(${pch} PRIVATE "SHELL:-Xclang -fno-pch-timestamp")  # for ccache
    endif()
  endif()
  # What defines macros must be the same for the headers and for who uses them.
  target_link_libraries(${target} PRIVATE fmt::fmt)
  target_compile_options(${target} PRIVATE -pthread)
  target_precompile_headers(${target} REUSE_FROM ${pch})
endfunction()

# tb_library(storage SOURCES a.cc HEADERS a.h DEPS ipc tensor base PUBLIC lib... PRIVATE lib...)
# makes the target tensorbroker_storage with the alias tensorbroker::storage. DEPS are folders of this
# project; they are the arrows of the architecture. TensorbrokerInstall.cmake chooses which headers are installed.
function(tb_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;HEADERS;DEPS;PUBLIC;PRIVATE" ${ARGN})
  set(target tensorbroker_${name})
  add_library(${target} STATIC ${ARG_SOURCES} ${ARG_HEADERS})
  add_library(tensorbroker::${name} ALIAS ${target})
  set_target_properties(${target} PROPERTIES EXPORT_NAME ${name} POSITION_INDEPENDENT_CODE ON)
  target_include_directories(${target} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${target} PUBLIC tensorbroker_${dep})
  endforeach()
  target_link_libraries(${target} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE})
  tb_compile_options(${target})
  tb_precompile(${target} libraries)
  set_property(GLOBAL APPEND PROPERTY TENSORBROKER_LIBRARIES ${target})
endfunction()

# tb_executable(tensorbrokerd SOURCES main.cc DEPS server LIBS lib...)
function(tb_executable name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  foreach(dep IN LISTS ARG_DEPS)
    target_link_libraries(${name} PRIVATE tensorbroker_${dep})
  endforeach()
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_LIBS})
  tb_compile_options(${name})
endfunction()

# tb_test(tensor SOURCES layout_test.cc DEPS tensor LIBS lib... [TIMEOUT s]) makes the gtest binary tensor_test.
function(tb_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPS;LIBS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  tb_executable(${name}_test SOURCES ${ARG_SOURCES} DEPS ${ARG_DEPS} LIBS ${ARG_LIBS} GTest::gtest GTest::gmock GTest::gtest_main)
  # Instrumented and optimised assertions take twice as long to compile as what they check: see the presets.
  separate_arguments(flags NATIVE_COMMAND "${TENSORBROKER_TEST_FLAGS}")
  target_compile_options(${name}_test PRIVATE ${flags})
  tb_precompile(${name}_test tests)
  gtest_discover_tests(${name}_test TEST_PREFIX ${name}/ DISCOVERY_TIMEOUT 60
    PROPERTIES TIMEOUT ${ARG_TIMEOUT} LABELS ${name})
endfunction()

# tb_fuzz(lease DEPS ipc base) makes a fuzz target of lease_fuzz.cc: the fuzzer lease_fuzz where TENSORBROKER_FUZZ is on,
# else the test that its seeds in corpus/lease pass.
function(tb_fuzz name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS;LIBS" ${ARGN})
  if(TENSORBROKER_FUZZ)
    tb_executable(${name}_fuzz SOURCES ${name}_fuzz.cc ${ARG_SOURCES} DEPS ${ARG_DEPS} LIBS ${ARG_LIBS})
    target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  else()
    tb_executable(${name}_replay SOURCES ${name}_fuzz.cc replay_main.cc ${ARG_SOURCES} DEPS ${ARG_DEPS} LIBS ${ARG_LIBS})
    add_test(NAME fuzz/${name}.SeedsPass COMMAND ${name}_replay ${CMAKE_CURRENT_SOURCE_DIR}/corpus/${name})
    set_tests_properties(fuzz/${name}.SeedsPass PROPERTIES LABELS fuzz)
  endif()
endfunction()
