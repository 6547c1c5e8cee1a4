# What `cmake --install` puts down beside the two programs: the libraries, headers and package files of the client.
include(CMakePackageConfigHelpers)

# The public headers: these, and all of this project's that they include. Nothing else is installed, so that a header
# of the inside cannot become somebody's interface by accident; tests/arrows checks that none of them reaches grpcpp or
# generated code.
set(public_headers tensorbroker/client/client.h tensorbroker/client/inspector.h)
file(GLOB file_headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/tensorbroker/files/*.h)
list(APPEND public_headers ${file_headers} tensorbroker/base/version.h)
set(queue ${public_headers})
while(queue)
  list(POP_FRONT queue header)
  set(path ${PROJECT_SOURCE_DIR}/${header})
  if(EXISTS ${path})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${path})
  else()
    set(path ${PROJECT_BINARY_DIR}/generated/${header})
  endif()
  cmake_path(GET header PARENT_PATH folder)
  install(FILES ${path} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT development)
  file(STRINGS ${path} lines REGEX "^ *# *include \"tensorbroker/")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE ".*\"(.*)\".*" "\\1" included "${line}")
    if(NOT included IN_LIST public_headers)
      list(APPEND public_headers ${included})
      list(APPEND queue ${included})
    endif()
  endforeach()
endwhile()
set_property(GLOBAL PROPERTY TENSORBROKER_PUBLIC_HEADERS ${public_headers})

# The libraries, users first: the order in which a static link needs them.
set(targets)
foreach(library client files proto wire ipc tensor base)
  if(TARGET tensorbroker_${library})
    list(APPEND targets tensorbroker_${library})
  endif()
endforeach()
install(TARGETS ${targets} EXPORT tensorbroker ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/tensorbroker)
install(EXPORT tensorbroker NAMESPACE tensorbroker:: FILE tensorbrokerTargets.cmake DESTINATION ${package_dir}
  COMPONENT development)
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/tensorbrokerConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/tensorbrokerConfig.cmake INSTALL_DESTINATION ${package_dir} PATH_VARS CMAKE_INSTALL_BINDIR)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/tensorbrokerConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/package/tensorbrokerConfig.cmake
  ${PROJECT_BINARY_DIR}/package/tensorbrokerConfigVersion.cmake DESTINATION ${package_dir} COMPONENT development)

list(TRANSFORM targets PREPEND -l OUTPUT_VARIABLE pc_libraries)
list(JOIN pc_libraries " " pc_libraries)
# The .pc file finds its prefix from where it lies, so that a tree that was moved, or installed with --prefix, works.
file(RELATIVE_PATH pc_prefix ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
string(REGEX REPLACE "/$" "" pc_prefix "${pc_prefix}")
configure_file(${PROJECT_SOURCE_DIR}/cmake/tensorbroker.pc.in ${PROJECT_BINARY_DIR}/package/tensorbroker.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/tensorbroker.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
  COMPONENT development)
install(FILES ${PROJECT_SOURCE_DIR}/LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT programs)
